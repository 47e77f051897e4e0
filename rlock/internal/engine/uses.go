package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The locks of the client as package diag reads them: see diag.Source.

// Look calls yield with each lock: first with those that are kept here.
func (c *Client) Look(waits bool, yield func(*terms.View)) {
	var views []terms.View
	for s := range c.allShards {
		views = views[:0]
		s.mu.Lock()
		now := time.Now()
		for _, r := range s.rooms {
			if v := r.view(waits, now); v.Levels != nil || v.Waits != nil {
				views = append(views, v)
			}
		}
		s.mu.Unlock()
		for i := range views {
			yield(&views[i])
		}
	}
	for _, b := range c.besides() {
		b.Look(waits, yield)
	}
}

// view is the room at that time. The mutex is held.
func (r *room) view(waits bool, now time.Time) (v terms.View) {
	c, n := r.client, r.name
	v.Name, v.Kind, v.ReadKind = n.Key, n.kindOf(false), KindRead
	if t := r.tenure; t != nil && t.valid(now) {
		v.ValidUntil = t.trust.Until()
		for i := range t.levels {
			l := &t.levels[i]
			v.Levels = append(v.Levels, terms.Level{
				Owner: l.Owner, Goroutine: l.caller, Reads: l.Shared, First: l.way != ByNesting, Since: c.start.Add(l.since),
				Until: l.Until, Place: l.place, Whole: l.wholeOf(),
			})
		}
	}
	if waits {
		for w := range r.waiters {
			if w.waits {
				v.Waits = append(v.Waits, terms.Wait{
					Owner: w.Owner, Goroutine: w.caller(), Reads: w.Shared, Since: w.began, Place: w.place, Whole: w.Whole,
				})
			}
		}
	}
	return v
}

// LongWaits reports whether calls wait for locks that are held here, and whether one of them has waited for long since it
// was asked last. It wakes waiters whose wait is to be logged (long.go).
func (c *Client) LongWaits(now time.Time) (waits, long bool) {
	for s := range c.allShards {
		s.mu.Lock()
		for _, r := range s.rooms {
			if s.counts.Waiting == 0 {
				break
			}
			for w := range r.waiters {
				waits = true
				r.hurry(w, now)
				if r.tenure != nil && !w.searched && now.Sub(w.began) >= longWaitTime {
					w.searched, long = true, true
				}
			}
		}
		s.mu.Unlock()
	}
	for _, b := range c.besides() {
		w, l := b.LongWaits(now)
		waits, long = waits || w, long || l
	}
	return waits, long
}

// longWaitTime is how long a call waits until deadlocks are searched for.
const longWaitTime = time.Second

// wholeOf returns what the level is a part of, nil for none.
func (l *Level) wholeOf() *terms.Whole {
	if l.hold == nil || !l.hold.IsHeld() {
		return nil
	}
	return l.hold.Whole
}

// A Diag is told of what package diag has to look at. Its methods wait for nothing, and may be called with a mutex held.
type Diag interface {
	// Asked takes a question of another client.
	Asked(m wire.ClientMessage)
	// Waits notes that a call waits for a lock that is held here.
	Waits()
}

// Watch says what is told of these, before the client has locks.
func (c *Client) Watch(d Diag) { c.diag = d }

// noDiag is told nothing.
type noDiag struct{}

func (noDiag) Asked(wire.ClientMessage) {}
func (noDiag) Waits()                   {}
