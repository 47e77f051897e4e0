package wire

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// slots is how many hash slots a Cluster has.
	slots = 16384
	// maxAsks and maxReleases are how many callers may have a command in flight to
	// one node. rueidis' ring holds 1 024 commands of a connection; once it is full,
	// callers wait whatever their context says. An ask whose caller leaves has a
	// second command in the ring, which undoes it, and the keeper has four batches
	// of 128 beside these: 2*176 + 128 + 512 = 992, which leaves room for pings.
	maxAsks, maxReleases = 176, 128
	// topologyAge is how old the picture of a Cluster may become, troubledAge how
	// old while a node does not answer.
	topologyAge, troubledAge = time.Minute, 5 * time.Second
	// doubtAge is how old it may become where it has led to the wrong node, or to none.
	doubtAge = 250 * time.Millisecond
)

// Nodes maps slots to servers, so that limits apply per server, and a slow or dead one
// delays no others. rueidis does the routing: an outdated map of a Cluster costs isolation
// only.
type Nodes struct {
	redis   *Redis
	picture atomic.Pointer[topology]

	mu       sync.Mutex // protects following
	numbers  map[string]uint32
	lookedAt time.Time
}

// A topology is never changed once it is in use.
type topology struct {
	bySlot    []uint32  // the node; outside a Cluster there is slot 0 alone
	limits    []*Limits // by node
	addresses []string  // by node, where rueidis reaches it; "" where that is not known
}

func newNodes(r *Redis) *Nodes {
	n := &Nodes{redis: r, numbers: make(map[string]uint32)}
	first := &topology{bySlot: make([]uint32, 1), limits: []*Limits{NewLimits()}, addresses: []string{""}}
	if r.opening != nil || r.cluster { // else it is known that there is one node
		first.bySlot = make([]uint32, slots)
	}
	n.picture.Store(first)
	return n
}

// addressOf returns where rueidis reaches the node that serves slot, "" if that is not known.
func (n *Nodes) addressOf(slot uint16) string {
	p := n.picture.Load()
	return p.addresses[p.bySlot[slot]]
}

// Of returns the number of the node that serves slot.
func (n *Nodes) Of(slot uint16) uint32 { return n.picture.Load().bySlot[slot] }

// Limits are those of the commands in flight to one node. Releases have slots of
// their own, so that they never wait for asks.
type Limits struct {
	Asks     Limit // of acquires, and of commands that only look
	Releases Limit
}

// NewLimits returns limits of their own.
func NewLimits() *Limits {
	return &Limits{Asks: Limit{slots: make(chan struct{}, maxAsks)}, Releases: Limit{slots: make(chan struct{}, maxReleases)}}
}

// Limits returns the limits of the commands in flight to the node that serves slot.
func (r *Redis) Limits(slot uint16) *Limits {
	p := r.Nodes.picture.Load()
	return p.limits[p.bySlot[slot]]
}

// A Limit has as many slots as there may be commands in flight.
type Limit struct {
	slots    chan struct{}
	inFlight atomic.Int64
	// progress is when the node last answered one, or when one was sent while none was in
	// flight, counted from began. It is set before inFlight counts that one.
	progress atomic.Int64
}

// began is what the times of progress are counted from.
var began = time.Now()

// Leave gives a slot back, when the command has ended.
func (l *Limit) Leave() {
	l.inFlight.Add(-1)
	<-l.slots
}

// Heard notes that the node answered.
func (l *Limit) Heard() { l.progress.Store(int64(time.Since(began))) }

// InFlight returns how many commands are in flight.
func (l *Limit) InFlight() int64 { return l.inFlight.Load() }

// Silent returns for how long the node has answered nothing, although commands are in flight.
func (l *Limit) Silent() time.Duration {
	if l.inFlight.Load() == 0 {
		return 0
	}
	return time.Since(began) - time.Duration(l.progress.Load())
}

// TryEnter takes a slot if one is free, and returns the limit, to be left.
func (l *Limit) TryEnter() (p *Limit, ok bool) {
	select {
	case l.slots <- struct{}{}:
		return l.Entered(), true
	default:
		return nil, false
	}
}

// Slots is for a caller that waits for a slot and for other things: after a send to it the caller
// has a slot, and calls [Limit.Entered].
func (l *Limit) Slots() chan<- struct{} { return l.slots }

// Entered counts a slot that was taken by Slots, and returns the limit, to be left.
func (l *Limit) Entered() *Limit {
	if l.inFlight.Load() == 0 {
		l.Heard()
	}
	l.inFlight.Add(1)
	return l
}

// Enter waits for a slot, and returns the limit, to be left. It fails if ctx ends before, or
// quit is closed; that waiting may cure.
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

// Refresh looks at the Cluster again if the last look is too long ago: less long if a node is
// in trouble.
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

// doubt looks at the Cluster again in the background: the picture has led to the wrong
// node, or to none.
func (n *Nodes) doubt() {
	n.redis.background.start(func() { n.refreshAfter(time.Now(), doubtAge) })
}

func (n *Nodes) refreshAfter(now time.Time, age time.Duration) {
	n.mu.Lock()
	old := now.Sub(n.lookedAt) > age
	if old {
		n.lookedAt = now // others need not look as well
	}
	n.mu.Unlock()
	if old {
		n.refresh()
	}
}

// refresh reads CLUSTER SLOTS: of each range its first and last slot, then its
// primary as address, port and more. A field that cannot be read stays as it was.
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

// find returns where rueidis reaches the node with that address in CLUSTER SLOTS: host, port
// and more. A node that does not know its own host leaves it out, and means the host that was
// asked: then the port must do.
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
			return "" // any of the two
		}
		found = address
	}
	return found
}

// EachNode returns a client for each node of a Cluster, replicas too, else the one of the server.
func (r *Redis) EachNode() []rueidis.Client {
	if !r.InCluster() {
		return []rueidis.Client{r.Client}
	}
	return slices.Collect(maps.Values(r.Client.Nodes()))
}
