package driver

import (
	"iter"
	"strconv"
	"sync"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// shardCount is how many shards a client has for each kind of lock.
const shardCount = 64

// A Client keeps the locks of some kinds of one client. Its methods may be called concurrently.
type Client struct {
	shared *client.Client // with which it shares the connections, the Observer and the losses
	id     *wire.ID
	wire   carrier
	clock  clock
	keeper *lease.Keeper
	post   post

	tracked places // of the keys of which Redis tells changes

	witness *witness // nil outside of tests

	leaseText string // Config.Lease in milliseconds, since nearly all commands have it

	// waiters are used again by this client only: a waiter has a channel, which must not leave its
	// testing/synctest bubble.
	waiters   sync.Pool
	exchanges sync.Pool // commands on their way

	shards [client.KindCount][]shard // by kind
}

var _ client.Locks = (*Client)(nil)

// New returns what keeps the locks of a client. It ends with that.
func New(e *client.Client) *Client {
	r := &redis{Redis: e.Redis, hub: e.Hub}
	c := newClient(e, r)
	r.client = c
	return c
}

func newClient(e *client.Client, w carrier) *Client {
	c := &Client{
		shared:    e,
		id:        e.ID,
		wire:      w,
		clock:     clock{start: e.Began, wall: e.Began.UnixNano()},
		leaseText: strconv.FormatInt(e.Config.Lease.Milliseconds(), 10),
		waiters:   sync.Pool{New: newWaiter},
		exchanges: sync.Pool{New: func() any { return new(exchange) }},
		witness:   newWitness(e),
	}
	config := c.config()
	for id, k := range kinds {
		c.shards[id] = make([]shard, shardCount)
		for i := range c.shards[id] {
			c.shards[id][i] = shard{
				client: c, kind: k, locks: make(map[string]*lock), pools: make(map[string]*pool),
				core: core.Client{Config: config, ID: thisClient, Tenure: e.ID.Number},
			}
		}
	}
	if c.wire.Tracks() {
		c.tracked.all = int64(e.Config.TrackedKeys)
	}
	c.keeper = lease.NewKeeper(c.keeperConfig())
	e.Keep(c)
	return c
}

// allShards calls yield with every shard.
func (c *Client) allShards(yield func(*shard) bool) {
	for id := range c.shards {
		for i := range c.shards[id] {
			if !yield(&c.shards[id][i]) {
				return
			}
		}
	}
}

// shardsOf calls yield with the shard of the key for each kind.
func (c *Client) shardsOf(key string) iter.Seq[*shard] {
	return func(yield func(*shard) bool) {
		i := c.shared.HashOf(key) % shardCount
		for id := range c.shards {
			if c.shards[id] != nil && !yield(&c.shards[id][i]) {
				return
			}
		}
	}
}

// locksOf calls visit with the lock of each kind that has the key, entered; of permits with that of the tenure, which
// is known by its owner's text.
func (c *Client) locksOf(key, tenure string, visit func(l *lock, now core.Now)) {
	owner := ownerIn(tenure)
	for s := range c.shardsOf(key) {
		if l, now := s.enterIfAny(key, owner); l != nil {
			visit(l, now)
			s.exit(l)
		}
	}
}
