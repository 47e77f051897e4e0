package rlock

import (
	"context"
	"fmt"
	"slices"
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
)

// nodes tells which commands meet the same server, so that a slow or dead one
// keeps nobody else waiting. rueidis does the routing: where this picture of a
// Cluster is out of date, isolation suffers, and nothing else.
type nodes struct {
	redis    rueidis.Client
	patience time.Duration // with a look at the Cluster
	picture  atomic.Pointer[topology]

	mu       sync.Mutex // protects following
	numbers  map[string]uint32
	lookedAt time.Time
}

// A topology is never changed once it is in use.
type topology struct {
	bySlot *[slots]uint32 // nil outside a Cluster: everything is node 0
	limits []*limits      // by node
}

func newNodes(ctx context.Context, redis rueidis.Client, patience time.Duration) *nodes {
	n := &nodes{redis: redis, patience: patience, numbers: make(map[string]uint32)}
	first := &topology{limits: []*limits{newLimits()}}
	if redis.Mode() == rueidis.ClientModeCluster {
		first.bySlot = new([slots]uint32)
	}
	n.picture.Store(first)
	if first.bySlot != nil {
		n.refreshIfOld(ctx, time.Now(), 0)
	}
	return n
}

// of returns the number of the node that serves slot.
func (n *nodes) of(slot uint16) uint32 {
	if bySlot := n.picture.Load().bySlot; bySlot != nil {
		return bySlot[slot]
	}
	return 0
}

// limits are those of the commands in flight to one node. Releases have places of
// their own, so that they never wait for asks.
type limits struct {
	asks     limit // of acquires, and of commands that only look
	releases limit
}

func newLimits() *limits {
	return &limits{asks: limit{places: make(chan struct{}, maxAsks)}, releases: limit{places: make(chan struct{}, maxReleases)}}
}

// to returns the limits of the node that serves slot.
func (n *nodes) to(slot uint16) *limits {
	p := n.picture.Load()
	if p.bySlot != nil {
		return p.limits[p.bySlot[slot]]
	}
	return p.limits[0]
}

// A limit has as many places as there may be commands in flight.
type limit struct {
	places   chan struct{}
	inFlight atomic.Int64
	// progress is when the node last answered one, or when one was sent while none was in
	// flight, counted from began. It is set before inFlight counts that one.
	progress atomic.Int64
}

// A place is one of a limit's, which the caller leaves when its command has ended.
type place = *limit

// began is what the times of progress are counted from.
var began = time.Now()

func (l *limit) entered() place {
	if l.inFlight.Load() == 0 {
		l.heard()
	}
	l.inFlight.Add(1)
	return l
}

func (l *limit) leave() {
	l.inFlight.Add(-1)
	<-l.places
}

// heard notes that the node answered.
func (l *limit) heard() { l.progress.Store(int64(time.Since(began))) }

// unanswered reports whether the node has answered nothing for at least so long, although
// commands are in flight.
func (l *limit) unanswered(least time.Duration) bool {
	return l.inFlight.Load() > 0 && time.Since(began)-time.Duration(l.progress.Load()) >= least
}

// tryEnter returns a place if one is free.
func (l *limit) tryEnter() (p place, ok bool) {
	select {
	case l.places <- struct{}{}:
		return l.entered(), true
	default:
		return nil, false
	}
}

// enter waits for a place. It fails with errCrowded if ctx ends before, or quit is
// closed.
func (l *limit) enter(ctx context.Context, quit <-chan struct{}) (place, error) {
	if p, ok := l.tryEnter(); ok {
		return p, nil
	}
	select {
	case l.places <- struct{}{}:
		return l.entered(), nil
	case <-quit:
		return nil, errCrowded
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errCrowded, ctx.Err())
	}
}

// refreshIfOld looks at the Cluster again if the last look is longer ago than age.
func (n *nodes) refreshIfOld(ctx context.Context, now time.Time, age time.Duration) {
	if n.picture.Load().bySlot == nil {
		return
	}
	n.mu.Lock()
	old := now.Sub(n.lookedAt) > age
	if old {
		n.lookedAt = now // others need not look as well
	}
	n.mu.Unlock()
	if old {
		n.refresh(ctx)
	}
}

// refresh reads CLUSTER SLOTS: of each range its first and last slot, then its
// primary as address, port and more. What cannot be read stays as it was.
func (n *nodes) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	ranges, err := n.redis.Do(ctx, n.redis.B().ClusterSlots().Build()).ToArray()

	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		return
	}
	was := n.picture.Load()
	bySlot, limits := *was.bySlot, slices.Clone(was.limits)
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
			limits = append(limits, newLimits())
		}
		for slot := max(first, 0); slot <= min(last, slots-1); slot++ {
			bySlot[slot] = number
		}
	}
	n.picture.Store(&topology{bySlot: &bySlot, limits: limits})
}
