package group

import (
	"errors"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A replica is what an attempt knows of a red lock's part on one server.
type replica struct {
	lock   Locker
	owner  terms.Owner
	index  int     // among the parts
	held   *member // nil if it is not held
	kept   bool    // by the watchdog, though the lock has a lease
	asking bool    // the answer is not in
	denial error   // the last answer, if it was no grant
}

// denied reports whether another is said to have the part.
func (r *replica) denied() bool { return r.held == nil && errors.Is(r.denial, terms.ErrNotAcquired) }

// state returns the state of the part without asking Redis.
func (r *replica) state() terms.State { return r.lock.State(r.owner) }

// drop releases the part. The next acquire of it here waits for that.
func (r *replica) drop() {
	if r.held != nil {
		r.held.part.ReleaseLater()
		r.held, r.kept = nil, false
	}
}

// errSilent is the fault of a server that others of this process are waiting for.
var errSilent = errors.New("the server has not answered for a while")

// fault returns why the part is neither held nor said to be another's, nil if it is not known to be at fault.
func (r *replica) fault() error {
	switch {
	case r.held != nil, r.denied():
		return nil
	case !r.asking:
		return r.denial
	case r.state().Silent >= terms.Silence-grace: // its turn to be asked was a little later
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
	for _, sentinel := range []error{wire.ErrClosed, rueidis.ErrClosing, terms.ErrLost, wire.ErrInvalidName, wire.ErrNoPermission, wire.ErrUnsupported, wire.ErrWrongType} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
