package driver

import (
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// Counts implements [engine.Beside], as AppendUses.
func (c *Client) Counts() (sum engine.Counts) {
	for s := range c.allShards {
		s.glance(func() { sum.Add(&s.counts) })
	}
	return sum
}

// AppendUses looks at one shard after the other.
func (c *Client) AppendUses(uses []engine.Use, waiting bool) []engine.Use {
	for s := range c.allShards {
		s.glance(func() {
			now := c.clock.now()
			for l := range s.all {
				uses = l.appendHeld(uses, now)
				if waiting {
					uses = l.appendWaiting(uses)
				}
			}
		})
	}
	return uses
}

// appendHeld appends what each owner holds.
func (l *lock) appendHeld(uses []engine.Use, now core.Now) []engine.Use {
	levels, clock := l.Levels(), &l.shard.client.clock
	for i := range levels {
		first := &levels[i]
		if !first.First || !l.Holds(first.Owner, now) {
			continue
		}
		u := engine.Use{
			Name: l.name.Key, Kind: l.name.KindOf(true), Owner: ownerOf(first), Goroutine: callerOf(first),
			Since: clock.time(first.Since), ValidUntil: clock.safe(l.ValidUntil(first.Owner)), Place: placeOf(first).Known(),
		}
		for j := range levels {
			if v := &levels[j]; v.Owner == first.Owner {
				u.Depth++
				if v.Mode == core.Alone {
					u.Kind = l.name.KindOf(false)
				}
			}
		}
		u.IsPartOf(wholeOf(first))
		uses = append(uses, u)
	}
	return uses
}

// callerOf returns the goroutine that has taken the level, 0 if it is not known.
func callerOf(v *core.Level) uint64 {
	if h, ok := v.Handle.(*hold); ok {
		return h.by
	}
	return (&engine.Request{Owner: ownerOf(v)}).Goroutine()
}

// placeOf returns where the level was taken, nil if that is not recorded.
func placeOf(v *core.Level) *engine.Place {
	place, _ := v.Info.(*engine.Place)
	return place
}

// wholeOf returns what the level is a part of, nil for none.
func wholeOf(v *core.Level) *terms.Whole {
	if h, ok := v.Handle.(*hold); ok && h.IsHeld() {
		return h.Whole
	}
	return nil
}

// appendWaiting appends the calls that wait for anything but the answer to their first attempt.
func (l *lock) appendWaiting(uses []engine.Use) []engine.Use {
	for one := range l.Waiters {
		w := one.Tag.(*waiter)
		if !w.waits {
			continue
		}
		u := engine.Use{
			Name: l.name.Key, Kind: l.name.KindOf(w.req.Shared), Owner: w.req.Owner, Goroutine: w.req.Goroutine(),
			Waits: true, Since: l.shard.client.clock.time(w.began), Place: w.place.Known(),
		}
		u.IsPartOf(w.req.Whole)
		uses = append(uses, u)
	}
	return uses
}
