package lease

import (
	"math/bits"
	"time"
)

// slots is the number of slots of a wheel: a power of two, and a multiple of 64 for the bitmap. At
// a tick of 10 ms the wheel turns once in 5 s, so that an entry 10 s ahead is passed over once or
// twice before its time comes.
const slots = 512

// A Wheel keeps entries by the time at which they are due. Scheduling and stopping are O(1) and
// allocate nothing, however many entries there are; it is scheme 6 of Varghese and Lauck (1987), a
// hashed wheel with unsorted lists.
//
// Time is cut into ticks that are numbered from the wheel's epoch. An entry lies in the slot of its
// due tick modulo the number of slots, and has the full number: when its slot is passed, an entry
// of a later round stays. A wheel that was not advanced for a while goes to the present tick at
// once, without a step for each tick.
//
// An entry is never due early. It comes out of the first [Wheel.Advance] at or after the end of the
// tick in which its time lies: at most one tick late.
//
// A Wheel has no clock, no goroutine and no mutex: times are passed in, and it is not safe for
// concurrent use.
type Wheel struct {
	epoch time.Time
	tick  time.Duration

	now   int64 // the last tick that was advanced to; no entry is due at or before it
	len   int
	heads [slots]*Entry      // the rings of entries
	taken [slots / 64]uint64 // a bit for each slot, set while the slot has entries
}

// An Entry is a place in a [Wheel] or a [Keeper]. Embed one in the struct to be scheduled, so that
// scheduling it allocates nothing. The zero Entry is ready to use. An entry belongs to one wheel or
// keeper at a time, which owns all its fields, and must not be copied meanwhile.
type Entry struct {
	next, prev *Entry // the neighbours in the ring of the slot; nil while e is not scheduled
	due        int64  // the tick at which e is due

	keeping keeping
}

// NewWheel returns an empty wheel whose ticks are counted from epoch. It panics if tick is not
// positive.
func NewWheel(epoch time.Time, tick time.Duration) *Wheel {
	if tick <= 0 {
		panic("lease: a wheel needs a positive tick")
	}
	return &Wheel{epoch: epoch, tick: tick}
}

// Schedule makes e due at the given time, in place of the time before. A time that has passed is
// due with the next tick.
func (w *Wheel) Schedule(e *Entry, at time.Time) {
	ahead := at.Sub(w.epoch)
	due := int64(ahead / w.tick)
	if ahead%w.tick > 0 {
		due++ // rounded up, so that e is not early
	}
	due = max(due, w.now+1)
	if e.next != nil {
		if e.due == due {
			return
		}
		w.Stop(e)
	}
	e.due = due
	slot := due % slots
	head := w.heads[slot]
	if head == nil {
		e.next, e.prev = e, e
		w.heads[slot] = e
		w.taken[slot/64] |= 1 << (slot % 64)
	} else {
		e.next, e.prev = head, head.prev
		e.prev.next, head.prev = e, e
	}
	w.len++
}

// Stop takes e out of the wheel, and reports whether e was there.
func (w *Wheel) Stop(e *Entry) bool {
	if e.next == nil {
		return false
	}
	slot := e.due % slots
	switch {
	case e.next == e:
		w.heads[slot] = nil
		w.taken[slot/64] &^= 1 << (slot % 64)
	case w.heads[slot] == e:
		w.heads[slot] = e.next
	}
	e.next.prev, e.prev.next = e.prev, e.next
	e.next, e.prev = nil, nil
	w.len--
	return true
}

// Advance takes out every entry that is due at now, and calls fire with each, in no particular
// order. fire must not use the wheel. A now before an earlier one changes nothing.
func (w *Wheel) Advance(now time.Time, fire func(*Entry)) {
	from, to := w.now, int64(now.Sub(w.epoch)/w.tick)
	if to <= from {
		return
	}
	w.now = to
	last := min(to, from+slots) // one turn meets every entry
	for at, ok := w.nextTick(from); ok && at <= last; at, ok = w.nextTick(at) {
		w.empty(at%slots, to, fire)
	}
}

// Flush takes out every entry, due or not, and calls fire with each. fire must not use the wheel.
func (w *Wheel) Flush(fire func(*Entry)) {
	for at, ok := w.nextTick(w.now); ok; at, ok = w.nextTick(at) {
		w.empty(at%slots, 1<<63-1, fire)
	}
}

// empty removes the entries of a slot that are due up to the tick to. The slot must have entries.
func (w *Wheel) empty(slot, to int64, fire func(*Entry)) {
	last := w.heads[slot].prev
	for e := w.heads[slot]; ; {
		next, end := e.next, e == last
		if e.due <= to {
			w.Stop(e)
			fire(e)
		}
		if end {
			return
		}
		e = next
	}
}

// Next returns the next time at which [Wheel.Advance] may find something due. ok is false if
// nothing is scheduled. It looks only for a slot with entries: all of them may be due in a later
// round.
func (w *Wheel) Next() (at time.Time, ok bool) {
	tick, ok := w.nextTick(w.now)
	if !ok {
		return time.Time{}, false
	}
	return w.epoch.Add(time.Duration(tick) * w.tick), true
}

// nextTick returns the first tick after the given one whose slot has entries, at most one turn
// later. ok is false if all slots are empty.
func (w *Wheel) nextTick(after int64) (tick int64, ok bool) {
	first := (after + 1) % slots
	word, bit := first/64, uint(first%64)
	// The word in which first lies is looked at twice: its upper bits at the beginning of the turn,
	// its lower bits at the end.
	taken := w.taken[word] &^ (1<<bit - 1)
	for range len(w.taken) + 1 {
		if taken != 0 {
			slot := word*64 + int64(bits.TrailingZeros64(taken))
			return after + 1 + (slot-first+slots)%slots, true
		}
		word = (word + 1) % int64(len(w.taken))
		taken = w.taken[word]
	}
	return 0, false
}

// Len returns the number of scheduled entries.
func (w *Wheel) Len() int { return w.len }
