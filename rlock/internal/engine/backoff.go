package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// foreignMemory is for how long a name does not linger on which a foreign client was met. These
	// cannot call.
	foreignMemory = 5 * time.Minute
	// maxBackoffs is how many names a shard remembers that do not linger.
	maxBackoffs = 256
	// callsAllowed is how often in a row a name is called back, without a Lock here that
	// profited from it, before it stops to linger; then for firstBackoff, doubling to lastBackoff.
	callsAllowed              = 2
	firstBackoff, lastBackoff = time.Second, time.Minute
)

// A backoff says that a name does not linger for a while, since others want the lock as
// often as this client does, or a foreign client was met. The shard's mutex protects it.
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
	least := time.Duration(0)
	if n := r.shard.backoffs[r.name.room].calls + 1 - callsAllowed; n >= 0 {
		least = min(firstBackoff<<min(n, 10), lastBackoff)
	}
	r.backOff(1, least, now)
}

// met notes the holder that Redis has named to a request: a foreign client cannot call.
func (r *room) met(holder string, req *Request, now time.Time) {
	lingers := r.client.Config.Linger > 0 || r.client.lingerOf(r, req) > 0
	if lingers && holder != "" && !wire.IsOurs(holder) && r.name.kind().foreign {
		r.backOff(0, foreignMemory, now)
	}
}

// backOff has the name not linger for so long at least, after so many more calls.
func (r *room) backOff(calls int, least time.Duration, now time.Time) {
	s, name := r.shard, r.name.room
	if s.backoffs == nil {
		s.backoffs = make(map[string]backoff)
	}
	b, known := s.backoffs[name]
	if !known && len(s.backoffs) >= maxBackoffs {
		s.forgetBackoffs(now)
	}
	b.calls += calls
	if until := now.Add(least); until.After(b.until) {
		b.until = until
	}
	s.backoffs[name] = b
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
