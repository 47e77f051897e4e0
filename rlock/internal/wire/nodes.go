package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

const (
	// slots is the number of hash slots of a Cluster.
	slots = 16384
	// maxAsks and maxReleases bound the callers that have a command in flight to one node. rueidis'
	// ring has room for 1 024 commands of a connection; once it is full, callers wait whatever
	// their context says. An ask whose caller leaves has a second command in the ring, which undoes
	// it, and the keeper has four batches of 128 commands: 2*176 + 128 + 512 = 992, which leaves
	// room for pings.
	maxAsks, maxReleases = 176, 128
	// topologyAge is the age at which the picture of a Cluster is renewed, and troubledAge that age
	// while a node does not answer.
	topologyAge, troubledAge = time.Minute, 5 * time.Second
	// doubtAge is that age if the picture has led to the wrong node, or to none.
	doubtAge = 250 * time.Millisecond
)

// Nodes maps slots to servers, so that each server has limits of its own, and a slow or dead one
// delays no others. rueidis routes the commands: an outdated map costs isolation only.
type Nodes struct {
	redis   *Redis
	picture atomic.Pointer[topology]

	mu       sync.Mutex // protects following
	numbers  map[string]uint32
	lookedAt time.Time
}

// A topology is a picture of the nodes. It is not changed once it is in use.
type topology struct {
	bySlot    []uint32  // the node of each slot; without a Cluster there is only slot 0
	limits    []*Limits // the limits of each node
	addresses []string  // the address by which rueidis reaches each node; "" if it is not known
}

func newNodes(r *Redis) *Nodes {
	n := &Nodes{redis: r, numbers: make(map[string]uint32)}
	first := &topology{bySlot: make([]uint32, 1), limits: []*Limits{NewLimits()}, addresses: []string{""}}
	if r.opening != nil || r.cluster { // else there is one node
		first.bySlot = make([]uint32, slots)
	}
	n.picture.Store(first)
	return n
}

// addressOf returns the address by which rueidis reaches the node that serves slot, or "".
func (n *Nodes) addressOf(slot uint16) string {
	p := n.picture.Load()
	return p.addresses[p.bySlot[slot]]
}

// Of returns the number of the node that serves slot.
func (n *Nodes) Of(slot uint16) uint32 { return n.picture.Load().bySlot[slot] }

// Limits are the limits of commands in flight to one node. Releases have slots of their own, so
// that they never wait for asks.
type Limits struct {
	Asks     Limit // the limit of acquires, and of commands that only read
	Releases Limit
}

// NewLimits returns limits that no node has yet.
func NewLimits() *Limits {
	return &Limits{Asks: Limit{slots: make(chan struct{}, maxAsks)}, Releases: Limit{slots: make(chan struct{}, maxReleases)}}
}

// Limits returns the limits of the commands in flight to the node that serves slot.
func (r *Redis) Limits(slot uint16) *Limits {
	p := r.Nodes.picture.Load()
	return p.limits[p.bySlot[slot]]
}

// A Limit has a slot for each command that may be in flight.
type Limit struct {
	slots    chan struct{}
	inFlight atomic.Int64
	// progress is when the node last answered a command, or when one was sent while none was in
	// flight, counted from began. It is set before inFlight counts that command.
	progress atomic.Int64
}

// began is the zero of the times in progress.
var began = time.Now()

// Leave gives a slot back. The command has ended.
func (l *Limit) Leave() {
	l.inFlight.Add(-1)
	<-l.slots
}

// Heard notes that the node answered.
func (l *Limit) Heard() { l.progress.Store(int64(time.Since(began))) }

// InFlight returns the number of commands in flight.
func (l *Limit) InFlight() int64 { return l.inFlight.Load() }

// Silent returns for how long the node has answered nothing while commands are in flight.
func (l *Limit) Silent() time.Duration {
	if l.inFlight.Load() == 0 {
		return 0
	}
	return time.Since(began) - time.Duration(l.progress.Load())
}

// TryEnter takes a slot if one is free. The caller leaves the limit that it returns.
func (l *Limit) TryEnter() (p *Limit, ok bool) {
	select {
	case l.slots <- struct{}{}:
		return l.Entered(), true
	default:
		return nil, false
	}
}

// Slots returns a channel for a caller that waits for a slot and for other things: after a send to
// it the caller has a slot, and calls [Limit.Entered].
func (l *Limit) Slots() chan<- struct{} { return l.slots }

// Entered counts a slot that was taken by Slots. The caller leaves the limit that it returns.
func (l *Limit) Entered() *Limit {
	if l.inFlight.Load() == 0 {
		l.Heard()
	}
	l.inFlight.Add(1)
	return l
}

// Enter waits for a slot. The caller leaves the limit that it returns. It fails if ctx ends before,
// or quit is closed.
func (l *Limit) Enter(ctx context.Context, quit <-chan struct{}) (*Limit, error) {
	if p, ok := l.TryEnter(); ok {
		return p, nil
	}
	select {
	case l.slots <- struct{}{}:
		return l.Entered(), nil
	case <-quit:
		return nil, ErrCrowded
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrCrowded, ctx.Err())
	}
}

// Refresh renews the picture of the Cluster if it is too old, which it is sooner if a node is in
// trouble.
func (n *Nodes) Refresh(now time.Time, trouble bool) {
	if !n.redis.InCluster() {
		return
	}
	age := topologyAge
	if trouble {
		age = troubledAge
	}
	n.refreshAfter(now, age)
}

// doubt renews the picture in the background, since it has led to the wrong node, or to none.
func (n *Nodes) doubt() {
	n.redis.background.start(func() { n.refreshAfter(time.Now(), doubtAge) })
}

func (n *Nodes) refreshAfter(now time.Time, age time.Duration) {
	n.mu.Lock()
	old := now.Sub(n.lookedAt) > age
	if old {
		n.lookedAt = now // so that no other goroutine does the same
	}
	n.mu.Unlock()
	if old {
		n.refresh()
	}
}

// refresh reads CLUSTER SLOTS, which has for each range of slots the first and the last one, and
// the address and port of the primary. A field that cannot be read stays as it was.
func (n *Nodes) refresh() {
	ctx, cancel := n.redis.Within(n.redis.ctx)
	defer cancel()
	ranges, err := n.redis.Client.Do(ctx, n.redis.Client.B().ClusterSlots().Build()).ToArray()

	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		return
	}
	was := n.picture.Load()
	bySlot, limits, addresses := slices.Clone(was.bySlot), slices.Clone(was.limits), slices.Clone(was.addresses)
	for _, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		primary := fmt.Sprint(fields[2].ToAny())
		number, ok := n.numbers[primary]
		if !ok {
			number = uint32(len(limits))
			n.numbers[primary] = number
			limits, addresses = append(limits, NewLimits()), append(addresses, "")
		}
		place, _ := fields[2].ToArray()
		addresses[number] = n.find(place)
		for slot := max(first, 0); slot <= min(last, slots-1); slot++ {
			bySlot[slot] = number
		}
	}
	n.picture.Store(&topology{bySlot: bySlot, limits: limits, addresses: addresses})
}

// find returns the address by which rueidis reaches a node, by its host and port in CLUSTER SLOTS.
// A node that does not know its own host leaves it out, and means the host that was asked: then the
// port has to do.
func (n *Nodes) find(place []rueidis.RedisMessage) (found string) {
	if len(place) < 2 {
		return ""
	}
	host, _ := place[0].ToString()
	number, _ := place[1].AsInt64()
	port := strconv.FormatInt(number, 10)
	if host != "" && host != "?" {
		return net.JoinHostPort(host, port)
	}
	for address := range n.redis.Client.Nodes() {
		if _, p, err := net.SplitHostPort(address); err != nil || p != port {
			continue
		}
		if found != "" {
			return "" // it may be either
		}
		found = address
	}
	return found
}

// EachNode returns a client for each node of a Cluster, replicas included, or the client of the
// single server.
func (r *Redis) EachNode() []rueidis.Client {
	if !r.InCluster() {
		return []rueidis.Client{r.Client}
	}
	return slices.Collect(maps.Values(r.Client.Nodes()))
}

const (
	// MaxSyncReplicas bounds Options.SyncReplicas. No primary has as many replicas.
	MaxSyncReplicas = 100
	// syncTime is the time in which a grant has to reach the replicas (Redisson's
	// slavesSyncTimeout); for a short lease it is a quarter of the lease.
	syncTime = time.Second
	// SyncConnections is the largest number of Acquires that wait for the replicas of one node,
	// each on a connection of its own, and SyncIdle the time for which such a connection is kept.
	SyncConnections, SyncIdle = 32, time.Minute
)

// doReplicated makes the call of an Acquire, a Resume or a Look with Options.SyncReplicas: a grant
// counts if so many replicas have it, and is released otherwise. The script and WAIT are one
// pipeline on one connection, since WAIT answers for what its own connection has written: on
// another connection it would answer at once, for nothing.
//
// WAIT blocks its connection, which no other command shares. So the call has no order among the
// client's other commands: see Ordered.
func (r *Redis) doReplicated(ctx context.Context, x *Exchange) {
	c := r.call(x)
	limit := min(syncTime, time.Duration(x.Cmd.Lease)/4)
	ctx, cancel := context.WithTimeout(ctx, limit+r.Patience) // nothing else ends a command that blocks on a dead peer
	defer cancel()

	generation := r.Generation()
	r.sent.n.Add(2) // the call and the WAIT
	script, wait := r.together(ctx, c.evalsha(r.Client), r.wait(limit))
	if c.again(script) {
		script, wait = r.together(ctx, c.eval(r.Client), r.wait(limit))
	}
	a := &x.Answer
	*a = read(r, x, script)
	if a.Heard {
		r.heard(generation)
	}
	if a.Err != nil || a.Found != core.Holds {
		return
	}
	n, err := wait.AsInt64()
	switch {
	case err != nil:
	case n < int64(r.options.SyncReplicas):
		err = fmt.Errorf("%w: %d of %d had it after %v", ErrNotReplicated, n, r.options.SyncReplicas, limit)
	default:
		return
	}
	a.Unreplicated, a.Err, a.Token, a.Others = true, err, 0, 0
	release := Exchange{Cmd: core.Command{Op: core.Leave, Ticket: x.Cmd.Ticket, Tokens: x.Cmd.Tokens, Permits: x.Cmd.Permits}, Keys: x.Keys, Kind: x.Kind, Text: x.Text}
	r.Do(ctx, r.step(&release))
}

// wait returns the WAIT command, whose reply is the number of replicas that have what its
// connection has written, once they are enough or the time is up.
func (r *Redis) wait(limit time.Duration) rueidis.Completed {
	return r.Client.B().Wait().Numreplicas(int64(r.options.SyncReplicas)).Timeout(max(limit.Milliseconds(), 1)).Build()
}

// checkWait returns an error if the server refuses WAIT. A node that does not answer now, or is a
// replica, does not: the Acquire asks again.
func (r *Redis) checkWait() error {
	if r.options.SyncReplicas == 0 {
		return nil
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	none := r.Client.B().Wait().Numreplicas(0).Timeout(1).Build()
	err := Explain(r.Client.Do(ctx, none).Error())
	if errors.Is(err, ErrNoPermission) || errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("SyncReplicas needs the command WAIT: %w", err)
	}
	return nil
}

// Ordered reports whether Redis gets the client's commands in the order in which they are sent,
// unless a connection is closed meanwhile, as Generation shows: that is so with one connection of
// the client's own. Of several connections to a node of a Cluster rueidis chooses one at random.
func (r *Redis) Ordered() bool {
	return r.conns.counted && r.options.Redis.PipelineMultiplex < 0 && r.options.SyncReplicas == 0
}

// IsAbandonable reports whether the caller of Carry may leave a command behind when its context
// ends, without harm to others: the next command of its tenure follows over the same connection,
// unless Generation shows that this has ended.
func (r *Redis) IsAbandonable() bool { return r.Connected() && r.Ordered() }

// together sends two commands as one pipeline on a connection that no other command shares
// meanwhile. The second has to be marked as one that blocks: for these rueidis has other
// connections. In a Cluster both go to the node that serves the first's slot.
//
// A connection of rueidis' Dedicate would do as well, but it unsubscribes when it is given back,
// which ends the process if the server refuses that: see package pubsub.
func (r *Redis) together(ctx context.Context, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	if !r.InCluster() {
		results := r.Client.DoMulti(ctx, first, second)
		return results[0], results[1]
	}
	// DoMulti of the Cluster's client would follow a MOVED with the first command alone.
	first, second = first.Pin(), second.Pin() // since they may be sent twice
	result, answer := r.togetherAt(ctx, r.Nodes.addressOf(first.Slot()), first, second)
	if reply, refused := rueidis.IsRedisErr(result.Error()); refused {
		if address, moved := reply.IsMoved(); moved {
			r.Nodes.doubt()
			return r.togetherAt(ctx, address, first, second)
		}
	} else if result.Error() != nil {
		r.Nodes.doubt()
	}
	return result, answer
}

// togetherAt is together at one node of a Cluster.
func (r *Redis) togetherAt(ctx context.Context, address string, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	node := r.Client.Nodes()[address]
	if node == nil {
		unknown := rueidis.NewErrorResult(rueidis.ErrNoSlot)
		return unknown, unknown
	}
	results := node.DoMulti(ctx, first, second)
	return results[0], results[1]
}
