package worker

import (
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
)

// A runner is one goroutine of a worker.
type runner struct {
	*worker
	index    int
	end      time.Time
	sections int64

	wait, pair, nested, handover, turns *recorder
}

// first is the lock with which the goroutine begins: neighbouring goroutines have
// neighbouring locks.
func (r *runner) first() int {
	return (r.Process*r.Goroutines + r.index) % r.Locks
}

// loop takes the lock again and again.
func (r *runner) loop() {
	lock := r.first()
	m, reader := r.client.Mutex(r.name(lock)), contender.Mutex(nil)
	if sharer, ok := r.client.(contender.Sharer); ok {
		reader = sharer.Reader(r.name(lock))
	}
	for {
		next, shared := m, reader != nil && rand.IntN(100) < r.Reads
		if shared {
			next = reader
		}
		if !r.section(next, lock, shared) || !r.rest() {
			return
		}
	}
}

// rest pauses between two sections, and reports whether there is time for another section.
func (r *runner) rest() bool {
	if r.Pause == 0 {
		return true
	}
	end := time.Now().Add(rand.N(r.Pause))
	if end.After(r.end) {
		return false
	}
	time.Sleep(time.Until(end))
	return true
}

// section is one Lock, section and Unlock, shared with other readers or not. It reports
// whether to go on.
func (r *runner) section(m contender.Mutex, lock int, shared bool) bool {
	before := r.ground.EnteredOf(lock)
	began := time.Now()
	err := m.Lock(r.ctx)
	got := time.Now()
	r.wait.record(got.Sub(began))
	if err != nil {
		return r.failed(err) && got.Before(r.end)
	}
	leave := r.ground.Leave
	if shared {
		leave = r.ground.Unshare
		r.overlap(r.ground.Share(lock))
	} else {
		r.enter(lock, began)
		r.turns.record(time.Duration(r.ground.EnteredOf(lock) - before))
	}
	r.spend(got)
	leave(lock)
	left := time.Now()
	err = m.Unlock()
	freed := time.Now()
	r.pair.record(got.Sub(began) + freed.Sub(left))
	if err != nil && !r.failed(err) {
		return false
	}
	if freed.After(r.end) {
		return false
	}
	r.sections++
	return true
}

func (r *runner) enter(lock int, since time.Time) {
	handover, overlaps := r.ground.Enter(lock, r.Process, since)
	if handover > 0 {
		r.handover.record(handover)
	}
	r.overlap(overlaps)
}

func (r *runner) overlap(overlaps bool) {
	if overlaps {
		r.mu.Lock()
		r.report.Overlaps++
		r.mu.Unlock()
	}
}

// longestSpin is the longest section that computes; a longer one waits for
// something else, as a query to a database does.
const longestSpin = 500 * time.Microsecond

// spend is the work of the section.
func (r *runner) spend(got time.Time) {
	switch {
	case r.Section == 0:
	case r.Section > longestSpin:
		time.Sleep(r.Section)
	default:
		for time.Since(got) < r.Section {
		}
	}
}

// nest takes one lock Depth times. Nested is the average of the pairs inside the
// outermost.
func (r *runner) nest() {
	lock := r.first()
	m := r.client.Mutex(r.name(lock))
	inner := r.Depth - 1
	for {
		began := time.Now()
		if err := m.Lock(r.ctx); err != nil {
			r.failed(err)
			return
		}
		got := time.Now()
		r.enter(lock, began)
		for range inner {
			if err := m.Lock(r.ctx); err != nil {
				r.failed(err)
				return
			}
		}
		for range inner {
			if err := m.Unlock(); err != nil {
				r.failed(err)
				return
			}
		}
		nested := time.Now()
		r.ground.Leave(lock)
		if err := m.Unlock(); err != nil && !r.failed(err) {
			return
		}
		freed := time.Now()
		r.wait.record(got.Sub(began))
		r.nested.record(nested.Sub(got) / time.Duration(inner))
		r.pair.record(freed.Sub(began))
		if freed.After(r.end) {
			return
		}
		r.sections++
	}
}

// In takeTurns each process waits for the lock only after another one has got it, so that
// every section is handed over from one process to another that waits, and none overtakes.
// Section must be long enough to begin to wait in.
func (r *runner) takeTurns() {
	const lock = 0
	m := r.client.Mutex(r.name(lock))
	for {
		for r.ground.Last(lock) == r.Process || r.ground.Last(lock) < 0 && r.Process > 0 {
			if time.Now().After(r.end) {
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
		if !r.section(m, lock, false) {
			return
		}
	}
}
