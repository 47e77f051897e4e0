package sim

import (
	"maps"
	"slices"

	"github.com/go-rlock/rlock/bench/fleet/server"
	"github.com/go-rlock/rlock/internal/core"
)

// planFailover has the first shard stop, and a replica take over.
func (s *Sim) planFailover() {
	f := &s.Failover
	if f.At == 0 {
		return
	}
	at := core.Time(f.At)
	s.shards[0].stops = at
	s.plan(at-core.Time(f.Lag), lags, 0, nil)
	s.plan(at, fails, 0, nil)
	s.plan(at.After(core.Span(f.For)), recovers, 0, nil)
}

// lag keeps a copy of the replica's state.
func (s *Sim) lag() {
	h := &s.shards[0]
	h.old, h.aged = make(map[uint32]*server.Lock, len(h.locks)), maps.Clone(h.keys)
	for name, l := range h.locks {
		h.old[name] = l.Clone()
	}
}

// fail ends all connections to the first shard.
func (s *Sim) fail() {
	h := &s.shards[0]
	h.down = true
	h.epoch++
	for _, b := range s.subsOf(0) {
		b.listens, b.heard, b.asked = false, false, false
		if l := s.locks[b.pair]; l != nil && b.needed {
			l.Deafened(s.clock())
			s.carryOut(l)
		}
	}
}

// recover promotes the replica. Clients connect again, subscribe, and verify their holds.
func (s *Sim) recover() {
	h := &s.shards[0]
	h.down, h.stops, h.until = false, core.Never, s.now
	h.locks, h.keys, h.old, h.aged = h.old, h.aged, nil, nil
	for _, b := range s.subsOf(0) {
		if b.needed {
			s.asksFor(&s.clients[b.client], b)
		} else {
			delete(s.subs, b.pair)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(s.locks), pair.compare) {
		if s.home(p.name) == 0 {
			l := s.locks[p]
			l.Doubt(s.clock())
			s.carryOut(l)
		}
	}
}

// subsOf returns the subscriptions at a shard, in an order.
func (s *Sim) subsOf(shard uint32) (subs []*sub) {
	for _, p := range slices.SortedFunc(maps.Keys(s.subs), pair.compare) {
		if s.home(p.name) == shard {
			subs = append(subs, s.subs[p])
		}
	}
	return subs
}

func (p pair) compare(o pair) int {
	if p.name != o.name {
		return int(p.name) - int(o.name)
	}
	return int(p.client) - int(o.client)
}
