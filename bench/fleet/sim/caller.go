package sim

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

type callerState uint8

const (
	pauses callerState = iota
	waits
	holds
	unlocks
	lost // it has lost the lock, and does not know yet in its section
)

// A caller is one goroutine of a client: it pauses, locks, holds, unlocks, again and again.
type caller struct {
	core.Call
	client *client
	lock   *lock
	name   uint32
	gen    uint32 // of its timer
	state  callerState
	flies  bool      // its command has no answer
	began  core.Time // of its Lock
	token  uint64    // of one that polls
}

// at schedules the caller's next step.
func (s *Sim) at(w *caller, at core.Time) {
	w.gen++
	if at < core.Never {
		s.plan(at, due, w.gen, w)
	}
}

// pause schedules the caller's next Lock.
func (s *Sim) pause(w *caller) {
	w.state = pauses
	d := time.Duration(0)
	if s.Pause > 0 {
		d = time.Duration(s.rng.ExpFloat64() * float64(s.Pause))
	}
	s.at(w, s.now.After(core.Span(d)))
}

// goesOn is the caller's timer.
func (s *Sim) goesOn(w *caller) {
	switch {
	case w.state == pauses && s.Polling != nil:
		w.name, w.began, w.state = s.choose(w.client), s.now, waits
		s.try(w)
	case w.state == pauses:
		s.calls(w)
	case w.state == waits && s.Polling != nil:
		s.try(w)
	case w.state == waits || w.state == unlocks:
		l := w.lock
		s.run(w)
		s.carryOut(l)
	case w.state == holds || w.state == lost:
		s.leaves(w)
	}
}

// choose returns the name that a caller wants next.
func (s *Sim) choose(c *client) uint32 {
	n := s.names
	if n == 1 {
		return 0
	}
	if s.Home > 0 && s.rng.IntN(100) < s.Home {
		if own := n / len(s.clients); own > 1 {
			return uint32(int(c.id) + len(s.clients)*s.rng.IntN(own))
		}
		return c.id % uint32(n)
	}
	return uint32(s.rng.IntN(n))
}

// calls is Lock.
func (s *Sim) calls(w *caller) {
	w.name, w.began, w.state = s.choose(w.client), s.now, waits
	l := s.lockOf(w.client, w.name)
	w.lock = l
	l.callers++
	w.Reuse(&core.Call{
		Owner: core.OwnerID(w.token + 1), Waits: true, Until: core.Never, Linger: core.Span(s.Linger), CallTime: core.Span(s.Network.OneWay),
		Tag: w, Info: w,
	})
	if b := s.subs[pair{w.client.id, w.name}]; b != nil && !b.needed && b.heard && s.Linger == 0 && l.Owner() == nil && !l.Subscribes() {
		b.needed = true // a call takes a ticket at once if others have waited a moment ago
		l.Listening(true, s.clock())
	}
	if l.Lock.Lock(&w.Call, s.clock()) != core.Waiting {
		s.collect(w)
	} else {
		s.run(w)
	}
	s.carryOut(l)
}

// run wakes the goroutine of a waiting caller, which makes its next step. All have a slot at once.
func (s *Sim) run(w *caller) {
	if w.state != waits && w.state != unlocks || w.lock == nil || w.flies {
		return
	}
	l, now := w.lock, s.clock()
	switch a := l.Next(&w.Call, true, now); a.Do {
	case core.Returns:
		s.collect(w)
	case core.Sends:
		w.flies = true
		cmd := l.Command(&w.Call, a.Op, now)
		s.sends(l, &cmd, w)
	default:
		s.at(w, a.Until)
	}
}

// collect has Lock or Unlock return.
func (s *Sim) collect(w *caller) {
	switch {
	case w.Outcome == core.Acquired:
		s.holds(w)
	case w.Outcome == core.Done:
		s.returned(w)
	default:
		panic("sim: a call without an end of its own has ended")
	}
}

// holds begins a section.
func (s *Sim) holds(w *caller) {
	if s.now >= s.warm {
		_ = s.result.Wait.RecordValue(int64(time.Duration(s.now - w.began).Microseconds()))
	}
	w.state = holds
	if s.held[w.name]++; s.held[w.name] > 1 && s.overlaps(w) {
		s.result.Overlaps++
	}
	s.at(w, s.now.After(core.Span(s.Section+s.Overhead)))
}

// overlaps reports whether another caller believes to hold the lock. One that stalls does nothing with it, and is told of its
// loss first when it goes on.
func (s *Sim) overlaps(w *caller) bool {
	for i := range s.callers {
		if o := &s.callers[i]; o != w && o.state == holds && o.name == w.name && o.client.stalled <= s.now {
			return true
		}
	}
	return false
}

// loses ends a hold before its Unlock.
func (s *Sim) loses(w *caller) {
	if w.state == waits { // it was granted the lock, and has not returned
		s.holds(w)
	}
	if w.state != holds {
		panic("sim: a loss is told to a caller that holds nothing")
	}
	w.state = lost
	s.ends(w)
	s.result.Losses++
}

// ends notes that the caller does not hold the lock any more.
func (s *Sim) ends(w *caller) { s.held[w.name]-- }

// leaves ends a section.
func (s *Sim) leaves(w *caller) {
	if s.Polling != nil {
		s.gives(w)
		return
	}
	l := w.lock
	if w.state == lost {
		s.returned(w)
		s.carryOut(l)
		return
	}
	s.counts(w)
	s.ends(w)
	w.state = unlocks
	_, t, ok := l.Unlock(w.Owner, core.Alone, nil, s.clock())
	switch {
	case !ok: // it is lost at this moment, and told so
		s.held[w.name]++
		w.state = holds
		s.carryOut(l)
		if w.state != lost {
			panic("sim: Unlock of a held lock is refused")
		}
		s.returned(w)
	case t == nil:
		s.returned(w)
	default:
		w.Reuse(&core.Call{Until: core.Never, Tag: w})
		l.Release(t, &w.Call)
		s.run(w)
	}
	s.carryOut(l)
}

// counts counts a section that ends.
func (s *Sim) counts(w *caller) {
	second := int(s.now / 1e9)
	for len(s.result.PerSecond) <= second {
		s.result.PerSecond = append(s.result.PerSecond, 0)
	}
	s.result.PerSecond[second]++
	if s.now >= s.warm {
		s.result.Sections++
		w.client.sections++
	}
}

// returned is the end of Unlock.
func (s *Sim) returned(w *caller) {
	w.lock.callers--
	w.lock = nil
	s.pause(w)
}
