package group

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// NewRed returns the lock that is the majority of one lock on each of so many servers. A server without one grants
// nothing.
func NewRed(name string, parts []Locker, servers int) *Lock {
	need := servers/2 + 1
	switch {
	case servers == 0:
		return RefusingRed(name, "it has no clients: give it one of each server, three at best")
	case len(parts) < need:
		return RefusingRed(name, "%d of %d clients are nil, so that there is no majority", servers-len(parts), servers)
	}
	l := newLock(name, terms.KindRed, parts, need)
	l.gather = l.elect
	return l
}

// RefusingRed returns a red lock that cannot be.
func RefusingRed(name, why string, args ...any) *Lock {
	return Refusing(name, fmt.Errorf("rlock: red lock %q: %w: %s", name, wire.ErrInvalidConfig, fmt.Sprintf(why, args...)))
}

// elect gathers a majority. A grant after that joins the hold; one after it has given up is
// released.
func (l *Lock) elect(ctx context.Context, h *Hold) error {
	a := newAttempt(ctx, h)
	if err := a.run(ctx); err != nil {
		a.leave()
		a.decide(nil)
		l.giveBack(ctx, h.owner, a.granted())
		return err
	}
	h.quit = a.leave
	var parts []*member // also those that have just ended: the hold must learn of their loss
	var lacks []Locker
	for _, r := range a.replicas {
		if r.held != nil {
			parts = append(parts, r.held)
		} else if !r.asking {
			lacks = append(lacks, r.lock)
		}
	}
	h.add(parts...)
	h.without(lacks...)
	a.decide(h)
	return nil
}
