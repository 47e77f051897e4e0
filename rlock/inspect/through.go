package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How often LetThrough looks at the lock, and for how long after the grace: a hold that is ended by
// force ends two seconds after the grace, and the waiter looks every two seconds.
const (
	firstGlance = 5 * time.Millisecond
	lastGlance  = 250 * time.Millisecond
	overtime    = 10 * time.Second
)

// LetThrough ends the hold of a holder that shown has for one waiter of its queue, and for nobody
// else: the waiting call goes on as one with rlock.WithTakeover and that grace, which may be 0. So a
// holder of rlock is told, and its hold ends with rlock.ErrTakenOver when the grace is over; one
// that does not answer, or is Redisson's, loses the lock by force two seconds later. If the waiter
// leaves before, the holder goes on, and a caller of the same client that has got its place joins
// the queue again. Of several waiters that are let through at the same time the last one is first.
//
// LetThrough returns nil once the waiter has the lock, or has had it. It fails with
// ErrNotLetThrough, and changes nothing, if the waiter has left, or its client does not listen, or
// no holder that was shown has the lock any more; and with errors.ErrUnsupported as well for a
// reader, a call that takes answers (package once), and a window of Redisson. If the waiter stands
// first and its client does not answer for ten seconds, the error is ErrNotLetThrough, too. After
// any other error, such as the end of ctx, the waiter may stand first, and goes on by itself. The
// parts of a multi or red lock are let through one by one.
func (i Inspector) LetThrough(ctx context.Context, shown Lock, waiter Waiter, grace time.Duration) error {
	failed := func(err error) error { return fmt.Errorf("rlock: let a waiter for %q through: %w", shown.Name, err) }
	if waiter.Shared || waiter.Foreign {
		return failed(refusals[wire.NoTaker])
	}
	var holders []wire.OwnerText
	for _, h := range shown.Holders {
		holders = append(holders, h.text())
	}
	l, ticket := i.lockOf(shown), wire.OwnerText(waiter.Owner)
	passage, err := l.LetThrough(ctx, ticket, grace, holders)
	if err == nil {
		err = refusals[passage]
	}
	if err != nil {
		return failed(err)
	}
	within, cancel := context.WithTimeoutCause(ctx, max(grace, 0)+overtime, errNotTaken)
	defer cancel()
	for pause := firstGlance; ; pause = min(2*pause, lastGlance) {
		now, err := i.Lock(within, shown.Name)
		left := err == nil && !now.waits(ticket)
		if left { // the holders were read before the queue, from which it may have been granted the lock in between
			now, err = i.Lock(within, shown.Name)
		}
		switch {
		case err != nil && within.Err() == nil:
			return failed(err)
		case err == nil && now.holds(ticket):
			return nil
		case err == nil && left && holdsAny(now, holders):
			return failed(refusals[wire.NoTicket])
		case err == nil && left:
			return nil // the waiter has had the lock
		}
		select {
		case <-time.After(pause):
		case <-within.Done():
			return failed(context.Cause(within))
		}
	}
}

// ErrNotLetThrough is the error of a waiter that was not let through. The error that wraps it says
// why.
var ErrNotLetThrough = errors.New("the waiter was not let through")

// errNotTaken is the error if the client of the waiter does not answer.
var errNotTaken = fmt.Errorf("%w: it stands first in the queue, and its client does not answer", ErrNotLetThrough)

// refusals has an error for each result of wire.PutTicketFirst but LetFirst.
var refusals = map[wire.Passage]error{
	wire.NoTicket:   fmt.Errorf("%w: it does not wait any more", ErrNotLetThrough),
	wire.NoHolder:   fmt.Errorf("%w: no holder that was shown has the lock any more", ErrNotLetThrough),
	wire.NoTaker:    fmt.Errorf("%w: %w: it is a reader, a call that takes answers, or a client of Redisson", ErrNotLetThrough, errors.ErrUnsupported),
	wire.NoListener: fmt.Errorf("%w: its client does not listen", ErrNotLetThrough),
}

// holds reports whether the owner with that text has the lock.
func (l *Lock) holds(owner wire.OwnerText) bool {
	return slices.ContainsFunc(l.Holders, func(h Holder) bool { return wire.OwnerText(h.Owner).UUID() == owner.UUID() })
}

// waits reports whether the ticket is in the queue.
func (l *Lock) waits(ticket wire.OwnerText) bool {
	return slices.ContainsFunc(l.Queue, func(w Waiter) bool { return wire.OwnerText(w.Owner).UUID() == ticket.UUID() })
}

// holdsAny reports whether one of the owners has the lock.
func holdsAny(l Lock, owners []wire.OwnerText) bool { return slices.ContainsFunc(owners, l.holds) }
