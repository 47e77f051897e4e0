package driver

import (
	"context"
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The locks as package monitor reads them: see monitor.Source. A look takes the mutex of a shard
// many times, for less than a millisecond each, and copies only what may change under it.

// Counts returns the sum of the counters of all shards, each read at a moment during the call.
func (c *Client) Counts() (sum Counts) {
	for s := range c.allShards {
		s.underMutex(func() { sum.Add(&s.counts) })
	}
	return sum
}

// atOnce is the number of levels and waits that are read under the mutex at once. The levels of one
// lock may exceed it.
const atOnce = 1024

// A lockReading is the part of one lock that a reader has read since it took the mutex.
type lockReading struct {
	name    *Name
	until   core.SafeTime // the end of the time for which the holders may be believed
	levels  int           // the number of its levels among those that were read
	waits   int
	permits int        // the number of permits that the owner has of a semaphore; 0 for other locks
	tenure  core.ID    // the tenure that is held while calls wait, or zero
	holder  core.Level // the first level of that tenure
}

// A lockReader reads locks. It is used by one goroutine.
type lockReader struct {
	client *Client
	look   contract.Look
	locate core.Time // calls that began before this time are to find out their sites
	locks  []lockReading
	levels []core.Level
	calls  []contract.Wait

	view  contract.View
	began core.Time // the beginning of the last call that was read, of a lock that is read in parts
	same  int       // the number of calls with this beginning that were read
}

// ReadLocks calls yield for each lock that look asks for, without a mutex.
func (c *Client) ReadLocks(look contract.Look, yield func(*contract.View)) {
	r := &lockReader{client: c, look: look}
	if !look.Locate.IsZero() {
		r.locate = core.Time(look.Locate.Sub(c.clock.start))
	}
	for s := range c.allShards {
		var all []*lockState
		s.underMutex(func() {
			if look.Holds || s.counts.Waiting > 0 {
				all = slices.Collect(s.all)
			}
		})
		for len(all) > 0 {
			read := 0
			s.underMutex(func() { read = r.readSome(s, all) })
			all = all[read:]
			r.yieldAll(yield)
		}
	}
}

// readSome reads some of the locks, and returns the number of locks that it has read completely.
//
// REQUIRES: shard.mu.
func (r *lockReader) readSome(s *shard, all []*lockState) (done int) {
	r.locks, r.levels, r.calls = r.locks[:0], r.levels[:0], r.calls[:0]
	for _, l := range all {
		if done+len(r.levels)+len(r.calls) >= atOnce {
			break
		}
		if s.has(l) && !r.readLock(l) {
			break
		}
		r.began, r.same = 0, 0
		done++
	}
	return done
}

// readLock reads a lock, from where it stopped before, and reports whether it has read all of it.
//
// REQUIRES: shard.mu.
func (r *lockReader) readLock(l *lockState) (all bool) {
	one, first, held := lockReading{name: l.name}, r.same == 0, l.IsHeld()
	if first && held && r.look.Holds {
		one.until = l.TrustedUntil()
		if l.name.Permits > 0 {
			one.permits = int(l.Held().More()) + 1
		}
		r.levels = append(r.levels, l.Levels()...)
		one.levels = len(l.Levels())
	}
	all = !r.look.Waits || r.readCalls(l, &one)
	if held && one.waits > 0 {
		one.tenure, one.holder = l.Held().ID, *l.FirstLevel(l.Levels()[0].Owner)
	}
	if one.levels+one.waits > 0 {
		r.locks = append(r.locks, one)
	}
	return all
}

// readCalls reads the calls that wait, in the order in which they began.
//
// REQUIRES: shard.mu.
func (r *lockReader) readCalls(l *lockState, one *lockReading) (all bool) {
	skip := r.same
	for w := range l.Waiters {
		w := w.Tag.(*waiter)
		switch {
		case w.Began < r.began || !w.contended:
			continue
		case w.Began == r.began && skip > 0:
			skip--
			continue
		case len(r.calls) >= atOnce:
			return false
		}
		if w.Began != r.began {
			r.began, r.same = w.Began, 0
		}
		r.same++
		one.waits++
		if w.site == nil && w.Began <= r.locate && !w.locates {
			w.locates = true
			w.wake()
		}
		holder, note := w.holderText.CutNote()
		r.calls = append(r.calls, contract.Wait{
			Owner: contract.Owner{ID: w.req.Owner.ID}, Goroutine: w.req.Goroutine(), Reads: w.req.Shared, Since: r.client.clock.timeOf(w.Began),
			Site: w.site, Whole: w.req.Whole, Holder: string(holder), Note: note.String(), Logged: w.logged, Endless: w.endless, Standing: w.req.Standing,
		})
	}
	return true
}

// yieldAll calls yield once for each lock that was read.
func (r *lockReader) yieldAll(yield func(*contract.View)) {
	levels, calls, clock, v := r.levels, r.calls, &r.client.clock, &r.view
	for i := range r.locks {
		one := &r.locks[i]
		v.Name, v.Kind, v.ReadKind = one.name.Key, one.name.KindOf(false), one.name.KindOf(true)
		v.ValidUntil, v.Permits = clock.timeOfSafe(one.until), one.permits
		v.Levels, v.Waits = v.Levels[:0], calls[:one.waits]
		for j := range levels[:one.levels] {
			v.Levels = append(v.Levels, levelView(&levels[j], clock))
		}
		v.Tenure, v.Holder, v.Note = "", contract.Level{}, ""
		if one.tenure != (core.ID{}) {
			v.Tenure, v.Holder = r.client.textOf(one.tenure, 0, 0).Tenure(), levelView(&one.holder, clock)
			if one.holder.Note != nil {
				v.Note = wire.Note{Text: v.Holder.Note, At: v.Holder.Since}.String()
			}
		}
		levels, calls = levels[one.levels:], calls[one.waits:]
		yield(v)
	}
}

// levelView returns the level for package monitor.
func levelView(v *core.Level, clock *clock) contract.Level {
	l := contract.Level{
		Owner: contract.Owner{ID: uint64(v.Owner)}, Goroutine: callerOf(v), Reads: v.Mode == core.Shared, First: v.First, Since: clock.timeOf(v.Since), Site: siteOf(v),
	}
	if h, ok := v.Handle.(*hold); ok {
		l.Standing, l.Dropped = h.standing, h.life.IsDropped()
		if h.isHeld() {
			l.Whole = h.whole
		}
		if l.Dropped && h.whole == nil {
			l.Release = func() { _ = h.Release(context.Background()) }
		}
	}
	if v.Note != nil {
		l.Note = v.Note.Text
	}
	if v.Until != core.NeverSafe {
		l.Until = clock.timeOfSafe(v.Until)
	}
	return l
}

// callerOf returns the goroutine that acquired the level, 0 if it is not known.
func callerOf(v *core.Level) uint64 {
	if h, ok := v.Handle.(*hold); ok {
		return h.by
	}
	if v.Guest {
		return 0
	}
	return levelOwner(v).Goroutine()
}

// siteOf returns the place in the program that acquired the level, or nil if that is not recorded.
func siteOf(v *core.Level) *contract.Site {
	site, _ := v.Info.(*contract.Site)
	return site
}
