package driver

import (
	"context"
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The locks as package diag reads them: see diag.Source. A look takes the mutex of a shard again and again, each time for
// so many locks, levels and waits that it holds it for less than a millisecond, and writes down under it only what may
// change.

// Counts returns the figures of all shards, each as of a moment during the call.
func (c *Client) Counts() (sum Counts) {
	for s := range c.allShards {
		s.glance(func() { sum.Add(&s.counts) })
	}
	return sum
}

// atOnce is how many levels and waits are read while a mutex is held. The levels of one lock, which are copied as they
// are, may be more.
const atOnce = 1024

// A seen is a lock as it was: a part of what a reader has seen since it took the mutex.
type seen struct {
	name    *Name
	until   core.SafeTime // until when the holders may be believed
	levels  int           // how many of the levels seen are its, from there on
	waits   int
	permits int        // of a semaphore; 0 for other locks
	tenure  core.ID    // that is held while calls wait, else zero
	holder  core.Level // its first
}

// A reader reads locks. It is used by one goroutine.
type reader struct {
	client *Client
	look   terms.Look
	locate core.Time // calls that began before that find out where they were made
	locks  []seen
	levels []core.Level
	calls  []terms.Wait

	view terms.View
	// The last call of the lock that was read in part, and how many calls that began with it were read.
	began core.Time
	same  int
}

// Look calls yield for each lock that the look is about, without a mutex.
func (c *Client) Look(look terms.Look, yield func(*terms.View)) {
	r := &reader{client: c, look: look}
	if !look.Locate.IsZero() {
		r.locate = core.Time(look.Locate.Sub(c.clock.start))
	}
	for s := range c.allShards {
		var all []*lock
		s.glance(func() {
			if look.Holds || s.counts.Waiting > 0 {
				all = slices.Collect(s.all)
			}
		})
		for len(all) > 0 {
			read := 0
			s.glance(func() { read = r.read(s, all) })
			all = all[read:]
			r.tell(yield)
		}
	}
}

// read reads some of the locks, and returns how many it is done with. The mutex is held.
func (r *reader) read(s *shard, all []*lock) (done int) {
	r.locks, r.levels, r.calls = r.locks[:0], r.levels[:0], r.calls[:0]
	now := r.client.clock.now()
	for _, l := range all {
		if done+len(r.levels)+len(r.calls) >= atOnce {
			break
		}
		if s.has(l) && !r.readLock(l, now) {
			break
		}
		r.began, r.same = 0, 0
		done++
	}
	return done
}

// readLock reads a lock, and reports whether it has read all of it. The part that was read before is not read again.
func (r *reader) readLock(l *lock, now core.Now) (all bool) {
	one, first, held := seen{name: l.name}, r.same == 0, l.IsHeld() && l.Owner() != nil
	if first && held && r.look.Holds {
		one.until = l.TrustedUntil()
		if l.name.Permits > 0 {
			one.permits = int(l.Owner().More()) + 1
		}
		r.levels = append(r.levels, l.Levels()...)
		one.levels = len(l.Levels())
	}
	all = !r.look.Waits || r.readCalls(l, &one)
	if held && one.waits > 0 {
		one.tenure, one.holder = l.Owner().ID, l.Levels()[0]
	}
	if one.levels+one.waits > 0 {
		r.locks = append(r.locks, one)
	}
	return all
}

// readCalls reads calls that wait, in the order in which they have begun.
func (r *reader) readCalls(l *lock, one *seen) (all bool) {
	skip := r.same
	for w := range l.Waiters {
		w := w.Tag.(*waiter)
		switch {
		case w.Began() < r.began || !w.waits:
			continue
		case w.Began() == r.began && skip > 0:
			skip--
			continue
		case len(r.calls) >= atOnce:
			return false
		}
		if w.Began() != r.began {
			r.began, r.same = w.Began(), 0
		}
		r.same++
		one.waits++
		if w.site == nil && w.Began() <= r.locate && !w.locates {
			w.locates = true
			w.wake()
		}
		r.calls = append(r.calls, terms.Wait{
			Owner: terms.Owner{ID: w.req.Owner.ID}, Goroutine: w.req.Goroutine(), Reads: w.req.Shared, Since: r.client.clock.time(w.Began()),
			Site: w.site, Whole: w.req.Whole, Holder: w.holder, Logged: w.logged, Endless: w.endless, Standing: w.req.Standing,
		})
	}
	return true
}

// tell calls yield for the part that was read.
func (r *reader) tell(yield func(*terms.View)) {
	levels, calls, clock, v := r.levels, r.calls, &r.client.clock, &r.view
	for i := range r.locks {
		one := &r.locks[i]
		v.Name, v.Kind, v.ReadKind = one.name.Key, one.name.KindOf(false), one.name.KindOf(true)
		v.ValidUntil, v.Permits = clock.safe(one.until), one.permits
		v.Levels, v.Waits = v.Levels[:0], calls[:one.waits]
		for j := range levels[:one.levels] {
			v.Levels = append(v.Levels, levelOf(&levels[j], clock))
		}
		v.Tenure, v.Holder = "", terms.Level{}
		if one.tenure != (core.ID{}) {
			v.Tenure, v.Holder = r.client.textOf(one.tenure, 0, 0)[:wire.TenureLen], levelOf(&one.holder, clock)
		}
		levels, calls = levels[one.levels:], calls[one.waits:]
		yield(v)
	}
}

// levelOf returns the level as package diag knows it.
func levelOf(v *core.Level, clock *clock) terms.Level {
	l := terms.Level{
		Owner: terms.Owner{ID: uint64(v.Owner)}, Goroutine: callerOf(v), Reads: v.Mode == core.Shared, First: v.First, Since: clock.time(v.Since),
		Site: siteOf(v), Whole: wholeOf(v), Standing: isStanding(v),
	}
	if h, ok := v.Handle.(*hold); ok && h.life.IsDropped() {
		l.Dropped = true
		if h.whole == nil {
			l.Release = func() { _ = h.Release(context.Background()) }
		}
	}
	if v.Until != core.NeverSafe {
		l.Until = clock.safe(v.Until)
	}
	return l
}

// callerOf returns the goroutine that has taken the level, 0 if it is not known.
func callerOf(v *core.Level) uint64 {
	if h, ok := v.Handle.(*hold); ok {
		return h.by
	}
	if v.Guest {
		return 0
	}
	return ownerOf(v).Goroutine()
}

// isStanding reports whether the level is held for long by design.
func isStanding(v *core.Level) bool {
	h, ok := v.Handle.(*hold)
	return ok && h.standing
}

// siteOf returns where the level was taken, nil if that is not recorded.
func siteOf(v *core.Level) *terms.Site {
	site, _ := v.Info.(*terms.Site)
	return site
}

// wholeOf returns what the level is a part of, nil for none.
func wholeOf(v *core.Level) *terms.Whole {
	if h, ok := v.Handle.(*hold); ok && h.isHeld() {
		return h.whole
	}
	return nil
}
