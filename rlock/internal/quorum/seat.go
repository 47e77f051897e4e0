package quorum

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A seat is what a campaign knows of a part.
type seat struct {
	lock   *engine.Lock
	part   int           // its place among the parts
	held   engine.Handle // nil if it is not held
	kept   bool          // by the watchdog, though the lock has a lease: the campaign waits elsewhere
	asking bool          // the answer is not in
	denial error         // the last answer, if it was no grant
}

// denied reports whether another is said to have the part.
func (s *seat) denied() bool { return s.held == nil && errors.Is(s.denial, engine.ErrNotAcquired) }

// drop releases a part in the background. The next acquire of it here waits for that.
func (s *seat) drop() {
	if h := s.held; h != nil {
		s.held, s.kept = nil, false
		go func() { _ = engine.Release(h.Context(), h) }()
	}
}

// errSilent is the fault of a server that others of this process are waiting for.
var errSilent = errors.New("the server has not answered for a while")

// fault returns why a part is neither held nor said to be another's, nil if it is not known
// to be at fault.
func (s *seat) fault() error {
	switch {
	case s.held != nil, s.denied():
		return nil
	case !s.asking:
		return s.denial
	case s.lock.Unanswered(engine.Silence - grace): // its turn to be asked was a little later
		return errSilent
	}
	return nil
}

// incurable reports whether waiting does not cure what a part said.
func incurable(err error) bool {
	if reply := (*rueidis.RedisError)(nil); errors.As(err, &reply) {
		f, _ := wire.Diagnose(reply)
		return f == wire.Never
	}
	for _, sentinel := range []error{wire.ErrClosed, rueidis.ErrClosing, engine.ErrLost, wire.ErrInvalidName, wire.ErrNoPermission, wire.ErrWrongType} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
