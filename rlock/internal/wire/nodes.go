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
	// their context says. If the caller of an ask leaves, a second command undoes the ask. The
	// keeper has four batches of 128 commands. So there are at most 2*176 + 128 + 512 = 992, which
	// leaves room for pings.
	maxAsks, maxReleases = 176, 128
	// topologyAge is the age at which the topology of a Cluster is read again. While a node does
	// not answer the age is troubledAge, and after a command for the wrong node it is doubtAge.
	topologyAge, troubledAge, doubtAge = time.Minute, 5 * time.Second, 250 * time.Millisecond
)

// Nodes maps slots to nodes, so that each node has limits of its own: commands to other nodes do
// not wait for a node that is slow or dead. rueidis routes the commands, so an outdated map only
// counts a command for the wrong node.
type Nodes struct {
	redis    *Redis
	topology atomic.Pointer[topology]

	mu       sync.Mutex        // guards the fields below
	numbers  map[string]uint32 // the numbers of the nodes, by their entry in CLUSTER SLOTS
	lookedAt time.Time
}

// A topology says which node serves each slot. It is not changed once it is in use.
type topology struct {
	bySlot    []uint32  // the number of the node of each slot; without a Cluster there is only slot 0
	limits    []*Limits // the limits of each node, by its number
	addresses []string  // the address by which rueidis reaches each node; "" if it is not known
}

func newNodes(r *Redis) *Nodes {
	n := &Nodes{redis: r, numbers: make(map[string]uint32)}
	first := &topology{bySlot: make([]uint32, 1), limits: []*Limits{newWatchedLimits(r)}, addresses: []string{""}}
	if r.opening != nil || r.cluster { // there may be several nodes
		first.bySlot = make([]uint32, slots)
	}
	n.topology.Store(first)
	return n
}

// addressOf returns the address by which rueidis reaches the node that serves slot, or "".
func (n *Nodes) addressOf(slot uint16) string {
	p := n.topology.Load()
	return p.addresses[p.bySlot[slot]]
}

// NodeOf returns the number of the node that serves slot.
func (n *Nodes) NodeOf(slot uint16) uint32 { return n.topology.Load().bySlot[slot] }

// primaries returns the number of nodes that serve slots.
func (n *Nodes) primaries() int {
	serving := make(map[uint32]bool)
	for _, node := range n.topology.Load().bySlot {
		serving[node] = true
	}
	return len(serving)
}

// Limits bound the commands in flight to one node. Releases have a limit of their own, so that they
// never wait for asks.
type Limits struct {
	Asks     Limit // the limit of acquires, and of commands that only read
	Releases Limit
}

// NewLimits returns the limits of a node.
func NewLimits() *Limits {
	return &Limits{Asks: Limit{slots: make(chan struct{}, maxAsks)}, Releases: Limit{slots: make(chan struct{}, maxReleases)}}
}

// Limits returns the limits of the commands in flight to the node that serves slot.
func (r *Redis) Limits(slot uint16) *Limits {
	p := r.Nodes.topology.Load()
	return p.limits[p.bySlot[slot]]
}

// A Limit has a slot for each command that may be in flight.
type Limit struct {
	slots    chan struct{}
	inFlight atomic.Int64
	silence  *silence // watches the node from when a command is sent while none is in flight; may be nil
	// progress is the time of the node's last answer, or of a later command that was sent while
	// none was in flight, in nanoseconds since began. A command sets it before inFlight.
	progress atomic.Int64
}

// began is the time from which progress counts.
var began = time.Now()

// FreeSlot gives a slot back, after the end of its command.
func (l *Limit) FreeSlot() {
	l.inFlight.Add(-1)
	<-l.slots
}

// Heard notes that the node answered.
func (l *Limit) Heard() { l.progress.Store(int64(time.Since(began))) }

// Count returns the number of commands in flight.
func (l *Limit) Count() int64 { return l.inFlight.Load() }

// Silent returns the time for which commands have been in flight without an answer of the node.
func (l *Limit) Silent() time.Duration {
	if l.inFlight.Load() == 0 {
		return 0
	}
	return time.Since(began) - time.Duration(l.progress.Load())
}

// TryEnter takes a slot if one is free. Then p is l, and the caller has to call FreeSlot of p when
// its command has ended. Else p is nil.
func (l *Limit) TryEnter() (p *Limit, ok bool) {
	select {
	case l.slots <- struct{}{}:
		return l.Entered(), true
	default:
		return nil, false
	}
}

// Slots returns a channel for a select: after a send to it the caller has a slot, and calls
// [Limit.Entered].
func (l *Limit) Slots() chan<- struct{} { return l.slots }

// Entered counts a slot that was taken by Slots, and returns l.
func (l *Limit) Entered() *Limit {
	if l.inFlight.Load() == 0 {
		l.Heard()
		l.silence.checkLater()
	}
	l.inFlight.Add(1)
	return l
}

// Enter waits for a slot, and returns l. It returns an [ErrCrowded] if ctx ends first, or quit is
// closed.
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

// Refresh reads the topology of the Cluster again if it is older than topologyAge or, if a node is
// in trouble, older than troubledAge.
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

// doubt reads the topology again in the background, after it has led to the wrong node, or to none.
func (n *Nodes) doubt() {
	n.redis.background.startWork(func() { n.refreshAfter(time.Now(), doubtAge) })
}

func (n *Nodes) refreshAfter(now time.Time, age time.Duration) {
	n.mu.Lock()
	old := now.Sub(n.lookedAt) > age
	if old {
		n.lookedAt = now // noted before the read, so that no other goroutine reads at the same time
	}
	n.mu.Unlock()
	if old {
		n.readTopology()
	}
}

// readTopology reads CLUSTER SLOTS, which has for each range of slots the first slot, the last
// slot, and the host and port of the primary. Ranges that cannot be read stay as they were.
func (n *Nodes) readTopology() {
	ctx, cancel := n.redis.Within(n.redis.ctx)
	defer cancel()
	ranges, err := n.redis.Client.Do(ctx, n.redis.Client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.topology.Load()
	bySlot, limits, addresses := slices.Clone(was.bySlot), slices.Clone(was.limits), slices.Clone(was.addresses)
	for _, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		name := fmt.Sprint(fields[2].ToAny())
		number, ok := n.numbers[name]
		if !ok {
			number = uint32(len(limits))
			n.numbers[name] = number
			limits, addresses = append(limits, NewLimits()), append(addresses, "")
		}
		primary, _ := fields[2].ToArray()
		addresses[number] = n.addressIn(primary)
		for slot := max(first, 0); slot <= min(last, slots-1); slot++ {
			bySlot[slot] = number
		}
	}
	n.topology.Store(&topology{bySlot: bySlot, limits: limits, addresses: addresses})
}

// addressIn returns the address by which rueidis reaches a node, by its host and port in CLUSTER
// SLOTS. A node that does not know its own host omits it, and means the host that was asked: then
// addressIn looks for the only node with that port.
func (n *Nodes) addressIn(primary []rueidis.RedisMessage) (found string) {
	if len(primary) < 2 {
		return ""
	}
	host, _ := primary[0].ToString()
	number, _ := primary[1].AsInt64()
	port := strconv.FormatInt(number, 10)
	if host != "" && host != "?" {
		return net.JoinHostPort(host, port)
	}
	for address := range n.redis.Client.Nodes() {
		if _, p, err := net.SplitHostPort(address); err != nil || p != port {
			continue
		}
		if found != "" {
			return "" // two nodes have this port
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
	// MaxSyncReplicas is the largest Options.SyncReplicas. No primary has as many replicas.
	MaxSyncReplicas = 100
	// syncTime is the time in which a grant has to reach the replicas, unless a quarter of the
	// lease is shorter. Redisson has the same time, slavesSyncTimeout.
	syncTime = time.Second
	// SyncConnections is the largest number of Acquires that wait for the replicas of one node,
	// each on a connection of its own. SyncIdle is the time for which an idle connection is kept.
	SyncConnections, SyncIdle = 32, time.Minute
)

// doReplicated makes the call of an Acquire, a Resume or a Look with Options.SyncReplicas: a grant
// that too few replicas have is released. The script and WAIT are one pipeline on one connection,
// since WAIT answers for the writes of its own connection.
//
// WAIT blocks its connection, which no other command shares. So the call may overtake the client's
// other commands, and be overtaken: see Ordered.
func (r *Redis) doReplicated(ctx context.Context, x *Exchange) {
	c := r.callFor(x)
	limit := min(syncTime, time.Duration(x.Cmd.Lease)/4)
	ctx = context.WithValue(ctx, replicated{}, true)
	ctx, cancel := context.WithTimeout(ctx, limit+r.Patience) // nothing else ends a command that waits for a dead peer
	defer cancel()

	generation := r.Generation()
	r.sent.n.Add(2) // the call and the WAIT
	script, wait := r.doTwo(ctx, c.evalsha(r.Client), r.waitCommand(limit))
	if c.again(script) {
		script, wait = r.doTwo(ctx, c.eval(r.Client), r.waitCommand(limit))
	}
	a := &x.Answer
	*a = readAnswer(r, x, script)
	if a.Heard {
		r.noteAnsweredAt(generation)
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
	r.Do(ctx, r.stepCall(&release))
}

// waitCommand returns the WAIT command. It waits until enough replicas have the writes of its
// connection, or limit is over, and replies with their number.
func (r *Redis) waitCommand(limit time.Duration) rueidis.Completed {
	return r.Client.B().Wait().Numreplicas(int64(r.options.SyncReplicas)).Timeout(max(limit.Milliseconds(), 1)).Build()
}

// checkWait returns an error if the server refuses WAIT for ever. It returns nil if the server does
// not answer now, or is a replica: then the first Acquire shows whether WAIT is refused.
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

// Ordered reports whether Redis gets the client's commands in the order in which they are sent, as
// long as Generation does not change. It needs one connection of the client's own: among several
// connections to a node rueidis chooses at random.
func (r *Redis) Ordered() bool {
	return r.conns.counted && r.options.Redis.PipelineMultiplex < 0 && r.options.SyncReplicas == 0
}

// IsAbandonable reports whether the caller of Carry may leave a command behind when its context
// ends: the next command of its tenure follows over the same connection, unless Generation has
// changed.
func (r *Redis) IsAbandonable() bool { return r.connected() && r.Ordered() }

// doTwo sends two commands as one pipeline on a connection that no other command shares meanwhile.
// The second command has to be marked as blocking, since rueidis has separate connections for
// blocking commands. In a Cluster both commands go to the node that serves the slot of the first.
// An ASK is not followed: the node that imports the slot refuses the command as well while one of
// its keys is missing there.
//
// A connection of rueidis' Dedicate would do as well, but rueidis unsubscribes when it takes the
// connection back, which ends the process if the server refuses that: see package pubsub.
func (r *Redis) doTwo(ctx context.Context, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	if !r.InCluster() {
		results := r.Client.DoMulti(ctx, first, second)
		return results[0], results[1]
	}
	// After a MOVED the DoMulti of the Cluster's client would send the first command alone.
	first, second = first.Pin(), second.Pin() // they may be sent twice
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

// togetherAt is doTwo at one node of a Cluster.
func (r *Redis) togetherAt(ctx context.Context, address string, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	node := r.Client.Nodes()[address]
	if node == nil {
		unknown := rueidis.NewErrorResult(rueidis.ErrNoSlot)
		return unknown, unknown
	}
	results := node.DoMulti(ctx, first, second)
	r.heedReply(first.Slot(), results[0].Error())
	return results[0], results[1]
}
