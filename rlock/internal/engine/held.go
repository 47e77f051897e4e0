package engine

import (
	"slices"
	"time"
)

// A HeldLock is a lock that a client holds: package rlock says what each field means.
type HeldLock struct {
	Name       string
	Kind       Kind
	Owner      Owner
	Since      time.Time
	ValidUntil time.Time
	Depth      int
	PartOf     string // "" for none
	Place      Place
}

// Held returns the locks that this client holds, those that it has held the longest first:
// one for each owner of each lock. It asks Redis nothing, but looks at every lock, one shard
// after the other.
func (c *Client) Held() []HeldLock {
	var held []HeldLock
	now := time.Now()
	for s := range c.allShards {
		s.mu.Lock()
		for _, r := range s.rooms {
			if t := r.tenure; t != nil && t.valid(now) {
				held = t.appendHeld(held, now)
			}
		}
		s.mu.Unlock()
	}
	slices.SortStableFunc(held, func(a, b HeldLock) int { return a.Since.Compare(b.Since) })
	return held
}

// appendHeld appends what each owner holds. The mutex is held.
func (t *tenure) appendHeld(held []HeldLock, now time.Time) []HeldLock {
	r := t.room
	for i := range t.levels {
		first := &t.levels[i]
		until := t.validUntilFor(first.Owner)
		if first.way == ByNesting || !now.Before(until) {
			continue
		}
		h := HeldLock{
			Name: r.name.Key, Kind: KindRead, Owner: first.Owner,
			Since: r.client.start.Add(first.since), ValidUntil: until, Place: first.place.Known(),
		}
		for j := range t.levels {
			if l := &t.levels[j]; l.Owner == first.Owner {
				h.Depth++
				if !l.shared {
					h.Kind = r.name.kindOf(false)
				}
			}
		}
		if p := first.wholeOf(); p != nil {
			h.PartOf, h.Place = p.Title(), p.Place().Known()
		}
		held = append(held, h)
	}
	return held
}

// wholeOf returns what the level is a part of, nil for none.
func (l *Level) wholeOf() Whole {
	if l.hold == nil || !l.hold.joined.Load() {
		return nil
	}
	return l.hold.whole
}
