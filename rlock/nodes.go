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
	// maxInFlight is how many commands of callers may be on their way to one
	// node. rueidis' ring holds 1 024 for a connection and, once full, makes
	// callers wait whatever their context says; the Keeper's batches (4 of 128)
	// need room beside these.
	maxInFlight = 500
	// topologyAge is how old the picture of a Cluster may become, troubledAge how
	// old while a node does not answer.
	topologyAge, troubledAge = time.Minute, 5 * time.Second
)

// nodes tells which commands meet the same server, so that a slow or dead one
// keeps nobody else waiting. rueidis does the routing: where this picture of a
// Cluster is out of date, isolation suffers, and nothing else.
type nodes struct {
	redis   rueidis.Client
	picture atomic.Pointer[topology]

	mu       sync.Mutex // protects following
	numbers  map[string]uint32
	lookedAt time.Time
}

// A topology is never changed once it is in use.
type topology struct {
	bySlot *[slots]uint32  // nil outside a Cluster: everything is node 0
	limits []chan struct{} // by node: a place for each command in flight
}

func newNodes(ctx context.Context, redis rueidis.Client) *nodes {
	n := &nodes{redis: redis, numbers: make(map[string]uint32)}
	first := &topology{limits: []chan struct{}{make(chan struct{}, maxInFlight)}}
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

// limit returns where a command to the node of slot takes its place before it is
// sent, and gives it back afterwards.
func (n *nodes) limit(slot uint16) chan struct{} {
	p := n.picture.Load()
	if p.bySlot == nil {
		return p.limits[0]
	}
	return p.limits[p.bySlot[slot]]
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
	ctx, cancel := context.WithTimeout(ctx, patience)
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
			limits = append(limits, make(chan struct{}, maxInFlight))
		}
		for slot := max(first, 0); slot <= min(last, slots-1); slot++ {
			bySlot[slot] = number
		}
	}
	n.picture.Store(&topology{bySlot: &bySlot, limits: limits})
}
