package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// lookAround is how long an attempt waits at one server, at most and with jitter,
	// before it asks all servers again: the server, or the holder of the lock there, may
	// be dead.
	lookAround = 2 * time.Second
	// grace is how long an attempt that was just granted the part it waited for waits for
	// the others: the former holder releases them at the same time.
	grace = 50 * time.Millisecond
)

// behind returns the first part that another owner of this process has or waits for,
// nil if there is none: the caller goes behind them, and asks no server.
func (a *attempt) behind() *replica {
	for _, r := range a.replicas {
		if r.state().Taken {
			return r
		}
	}
	return nil
}

// isolated reports whether so few servers answer that there is no majority to be had.
func (a *attempt) isolated() bool {
	dead := 0
	for _, r := range a.replicas {
		fault := r.denial != nil && !r.denied()
		if r.held == nil && (fault || r.asking && a.rounds > 1 && r.state().IsSilent()) {
			dead++
		}
	}
	return dead > len(a.replicas)-a.lock.need
}

// firstDenial returns the first part that said that another has it, nil if none did.
func (a *attempt) firstDenial() *replica {
	for _, r := range a.replicas {
		if r.denied() && !r.asking {
			return r
		}
	}
	return nil
}

// wait waits for a while at the part, or for servers to come back if there is none to
// wait at; attempts of others that reach more servers may use its parts meanwhile. It
// reports whether it has a majority.
func (a *attempt) wait(ctx context.Context) (won bool) {
	for _, r := range a.replicas {
		if a.at == nil || r.index > a.at.index || a.stuck && r != a.at {
			r.drop()
		}
	}
	a.keep(true)
	granted := false
	if left := a.options.left(a.began); a.at == nil {
		won = a.pause(ctx, left)
	} else {
		won = a.waitAt(ctx, a.at, left)
		granted = a.at.held != nil
	}
	a.patience = 0
	if granted {
		a.patience = grace
	}
	a.stuck = !granted && !a.stuck
	a.at = nil
	return won
}

// pause takes results for a while, which is longer each time in a row.
func (a *attempt) pause(ctx context.Context, most time.Duration) (won bool) {
	pause := time.NewTimer(min(wire.Jitter(min(wire.FirstRetry<<min(a.fails, 10), wire.LastRetry)), most))
	defer pause.Stop()
	if a.fails == 0 {
		a.since = time.Now()
	}
	a.fails++
	a.lock.home.Trouble(a.lock.name, a.since, a.fault())
	return a.count(ctx, pause.C, func() bool { return false })
}

// waitAt waits until the part has answered, or for so long at most that another server may
// answer sooner.
func (a *attempt) waitAt(ctx context.Context, r *replica, most time.Duration) (won bool) {
	a.fails = 0
	wait := min(wire.Jitter(lookAround), most)
	if !r.asking && r.held == nil {
		a.ask(r, wait)
	}
	answered := func() bool { return !r.asking }
	for until := time.Now().Add(wait + grace); !won && !answered() && ctx.Err() == nil; {
		look := time.NewTimer(min(terms.Silence, time.Until(until)))
		won = a.count(ctx, look.C, answered)
		look.Stop()
		if r.state().IsSilent() || !time.Now().Before(until) {
			break
		}
	}
	return won
}

// over returns why the attempt is over without a majority, nil if it goes on.
func (a *attempt) over(ctx context.Context) error {
	denied, hopeless, spare := 0, 0, len(a.replicas)-a.lock.need
	for _, r := range a.replicas {
		if r.denied() {
			denied++
		}
		if err := r.fault(); err != nil && incurable(err) {
			hopeless++
		}
	}
	fault := a.fault()
	switch name := a.lock.name; {
	case ctx.Err() != nil:
		return fmt.Errorf("rlock: lock %q: %w", name, wire.TimeUp(ctx, fault))
	case hopeless <= spare && a.options.left(a.began) > 0:
		return nil
	case hopeless <= spare && (denied > spare || fault == nil):
		return fmt.Errorf("rlock: lock %q: %w", name, terms.ErrNotAcquired)
	default:
		return fmt.Errorf("rlock: lock %q: no majority, which is %d servers: %w", name, a.lock.need, fault)
	}
}

// fault returns what the servers said last that neither granted their parts nor denied them.
func (a *attempt) fault() error {
	var faults []error
	for _, r := range a.replicas {
		if err := r.fault(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", homeOf(r.lock).Where(), err))
		}
	}
	return errors.Join(faults...)
}
