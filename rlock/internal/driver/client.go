package driver

import (
	"strconv"
	"sync"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// shardCount is how many shards a client has.
const shardCount = 64

// A Client keeps the locks of some kinds of one client. Its methods may be called concurrently.
type Client struct {
	shared *client.Client // with which it shares the connections, the Observer and the losses
	id     *wire.ID
	wire   carrier
	clock  clock
	keeper *lease.Keeper
	post   post

	tracked trackedKeys // of the keys of which Redis tells changes

	witness *witness // asserts the rules, in tests with the build tag "invariants"

	leaseText string // Config.Lease in milliseconds, since nearly all commands have it

	// waiters are used again by this client only: a waiter has a channel, which must not leave its
	// testing/synctest bubble.
	waiters   sync.Pool
	exchanges sync.Pool // commands on their way

	shards [shardCount]shard // by the hash of the key
}

// Of returns the parts of face, a *rlock.Client, and the prefix of its names. Package rlock sets it, for the packages
// beside it: those that have keys of their own, and those that show the state of a client.
var Of func(face any) (c *Client, shared *client.Client, prefix string)

var _ client.Locks = (*Client)(nil)

// New returns what keeps the locks of a client. It ends with that.
func New(e *client.Client) *Client {
	r := &redis{Redis: e.Redis, hub: e.Hub}
	r.courier.line = r
	c := newClient(e, r)
	r.courier.client = c
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
	for i := range c.shards {
		s := &c.shards[i]
		s.client, s.pools = c, make(map[string]*pool)
		s.core = core.Client{Config: config, ID: thisClient, Tenure: e.ID.Number}
		for id := range s.locks {
			s.locks[id] = make(map[string]*lock)
		}
	}
	if c.wire.traits().tracks {
		c.tracked.all = int64(e.Config.TrackedKeys)
	}
	c.keeper = lease.NewKeeper(c.keeperConfig())
	e.Keep(c)
	return c
}
