package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// guestMemory is for how long a name does not linger on which a guest was met. Guests
	// cannot call.
	guestMemory = 5 * time.Minute
	// maxBackoffs is how many names a shard remembers that do not linger.
	maxBackoffs = 256
	// callsAllowed is how often in a row a name is called back, without a Lock here that
	// profited from it, before it stops to linger; then for firstBackoff, doubling to lastBackoff.
	callsAllowed              = 2
	firstBackoff, lastBackoff = time.Second, time.Minute
)

// A backoff says that a name does not linger for a while, since others want the lock as
// often as this client does, or a guest was met. The shard's mutex protects it.
type backoff struct {
	calls int       // in a row without a profit
	until time.Time // it does not linger
}

// calledBack notes that the tenure was called while it lingered.
func (r *room) calledBack(t *tenure, now time.Time) {
	if t.reused {
		delete(r.shard.backoffs, r.name.room)
		return
	}
	r.contendedFor(now)
}

// contendedFor notes that others wanted the lock before it was of use here that it lingered.
func (r *room) contendedFor(now time.Time) {
	b := r.shard.backoffs[r.name.room]
	b.calls++
	if n := b.calls - callsAllowed; n >= 0 {
		b.until = later(b.until, now.Add(min(firstBackoff<<min(n, 10), lastBackoff)))
	}
	r.remember(b, now)
}

// uncalled notes that others wait for a tenure that may linger and have not called it: guests
// cannot.
func (r *room) uncalled(now time.Time) {
	b := r.shard.backoffs[r.name.room]
	b.until = later(b.until, now.Add(lastBackoff))
	r.remember(b, now)
}

// met notes the holder that Redis has named to a request: a guest cannot call.
func (r *room) met(holder string, req *Request, now time.Time) {
	lingers := r.client.Config.Linger > 0 || r.client.lingerOf(r, req) > 0
	if !lingers || holder == "" || wire.IsOurs(holder) || !r.name.kind().foreign {
		return
	}
	b := r.shard.backoffs[r.name.room]
	b.until = later(b.until, now.Add(guestMemory))
	r.remember(b, now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *room) remember(b backoff, now time.Time) {
	s := r.shard
	if s.backoffs == nil {
		s.backoffs = make(map[string]backoff)
	}
	if _, ok := s.backoffs[r.name.room]; !ok && len(s.backoffs) >= maxBackoffs {
		s.forgetBackoffs(now)
	}
	s.backoffs[r.name.room] = b
}

// forgetBackoffs makes room for one more name: it forgets those that may linger again, or
// any one.
func (s *shard) forgetBackoffs(now time.Time) {
	for name, b := range s.backoffs {
		if now.After(b.until) {
			delete(s.backoffs, name)
		}
	}
	for name := range s.backoffs {
		if len(s.backoffs) >= maxBackoffs {
			delete(s.backoffs, name)
		}
	}
}

// backsOff reports whether the name does not linger now.
func (r *room) backsOff(now time.Time) bool {
	if len(r.shard.backoffs) == 0 {
		return false
	}
	b, ok := r.shard.backoffs[r.name.room]
	return ok && now.Before(b.until)
}
