package redisson

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Permit is a permit that this process holds. Its methods may be called concurrently.
//
// Another process that has the id may change the permit. If it releases the permit, or gives it a
// shorter lease that ends, this process notices by the next renewal, at most a third of
// [rlock.Config].Lease later. If the permit has a fixed lease, this process notices by its Release.
type Permit struct {
	of    *PermitSemaphore
	raw   string
	entry lease.Entry

	ctx    context.Context
	cancel context.CancelCauseFunc

	changing chan struct{} // has a value while a call changes the term

	mu      sync.Mutex // guards the fields below
	term    term
	until   time.Time     // the end of the validity that Redis has confirmed; not used if the term is endless
	most    time.Duration // the longest lease that is trusted, since a change without an answer may be executed late; 0 for any lease
	changes uint64        // the number of changes of the term: a renewal that was sent before a change does not count
	over    bool          // the permit was released or lost
}

// A term says how a permit ends.
type term struct {
	kind  termKind
	lease time.Duration // the lease; 0 if the term is endless
}

type termKind uint8

const (
	fixed   termKind = iota // the permit ends with its lease
	kept                    // the permit ends by its release: the watchdog renews its lease
	endless                 // the permit ends by its release: it has no lease
)

func (s *PermitSemaphore) newPermit(t term) *Permit {
	p := &Permit{of: s, raw: s.client.newID(), term: t, changing: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// term returns the term of a permit with a lease of that length; 0 stands for the watchdog.
func (s *PermitSemaphore) term(length time.Duration) (term, error) {
	if length == 0 {
		return term{kept, s.client.shared.Config.Lease}, nil
	}
	return term{fixed, length}, s.checkLease(length)
}

// ID returns the id of the permit, as Redisson writes it. By the id another client may release the
// permit.
func (p *Permit) ID() string { return hex.EncodeToString([]byte(p.raw)) }

// Context returns a context that ends when the permit does. Its cause is [rlock.ErrNotHeld] after a
// release by this client, [rlock.ErrLost] before its lease can end in Redis or when Redis has
// reported it gone, and [rlock.ErrClosed] when [rlock.Client.Close] is called: then nothing renews
// the permit, and Redis keeps it until its lease ends.
func (p *Permit) Context() context.Context { return p.ctx }

// Err returns nil while the permit is held, and then the cause of its end.
func (p *Permit) Err() error {
	p.mu.Lock()
	ended := !p.over && p.ends() && !time.Now().Before(p.until) // the watchdog may not have noticed yet
	p.mu.Unlock()
	if ended {
		p.end(p.ended())
	}
	return context.Cause(p.ctx)
}

// Extend gives the permit a lease of d that begins now, longer or shorter than the rest of the
// present one. From then on the watchdog does not renew the permit, unless d is 0. It returns
// [rlock.ErrLost] or [rlock.ErrNotHeld] if the permit has ended. After [rlock.ErrUnconfirmed] Redis
// may have either lease, and the permit counts as held for the shorter one.
func (p *Permit) Extend(ctx context.Context, d time.Duration) error {
	t, err := p.of.term(d)
	if err != nil {
		return err
	}
	if _, err := p.change(ctx, t); err != nil {
		return err
	}
	return p.Err()
}

// Release gives the permit back. It returns [rlock.ErrLost] if the permit had ended before,
// [rlock.ErrNotHeld] if it was released, and [rlock.ErrUnconfirmed] if Redis has not answered for
// some seconds: then the release is repeated in the background, until the lease of the permit ends.
// It completes even if ctx has ended, and may be called again.
func (p *Permit) Release(ctx context.Context) error {
	cause := p.Err()
	n, err := p.of.release(context.WithoutCancel(ctx), p.raw)
	switch {
	case err != nil || n > 0:
		return err
	case cause != nil:
		return cause
	}
	return p.lost("it is gone from Redis")
}

// ended is the error of a permit whose lease has ended.
func (p *Permit) ended() error { return p.lost("its lease has ended") }

func (p *Permit) lost(why string) error { return p.says(rlock.ErrLost, why) }

func (p *Permit) says(what error, why string) error {
	return p.of.named(fmt.Errorf("permit %s: %w: %s", p.ID(), what, why))
}

// ends reports whether the permit ends by itself. The caller holds p.mu.
func (p *Permit) ends() bool { return p.term.kind != endless }

// lasts returns the time for which Redis may have the permit if nothing is sent from now on.
func (p *Permit) lasts() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ends() {
		return math.MaxInt64
	}
	return p.term.lease
}

// isOver reports whether the permit was released or lost.
func (p *Permit) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// validity returns the time until which a lease of that length may be trusted if its command was
// sent at sent. The caller holds p.mu.
func (p *Permit) validity(length time.Duration, sent time.Time) time.Time {
	if p.most > 0 {
		length = min(length, p.most)
	}
	return sent.Add(length - lease.Drift(length, p.of.client.shared.Tick))
}

// begin notes that a command sent at sent has taken the permit. It reports false if the client is
// closed.
func (p *Permit) begin(sent time.Time) bool {
	p.mu.Lock()
	p.until = p.validity(p.term.lease, sent)
	p.mu.Unlock()
	return p.of.client.keeping.begin(p)
}

// renewed notes that a command sent at sent has renewed the lease, unless the term was changed more
// than changes times.
func (p *Permit) renewed(sent time.Time, changes uint64) {
	p.mu.Lock()
	if p.changes == changes {
		p.until = p.validity(p.term.lease, sent)
	}
	p.mu.Unlock()
	p.of.client.keeping.schedule(p)
}

// end ends the permit in this process.
func (p *Permit) end(cause error) {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.of.client.keeping.stop(p)
	p.cancel(cause)
}

// change gives the permit another term from now on, and reports whether the permit is held. Until
// Redis answers, the shorter of the two leases is trusted, and is not renewed. The command may be
// repeated.
func (p *Permit) change(ctx context.Context, to term) (bool, error) {
	select {
	case p.changing <- struct{}{}:
		defer func() { <-p.changing }()
	case <-ctx.Done():
		return false, p.of.named(wire.Over(ctx))
	}
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return false, nil
	}
	was, until := p.term, p.until
	p.term = term{fixed, was.lease}
	if shorter := p.validity(to.lease, time.Now()); to.kind != endless && (was.kind == endless || shorter.Before(until)) {
		p.until = shorter
	} else if was.kind == endless {
		p.term = was
	}
	p.changes++
	p.mu.Unlock()
	p.of.client.keeping.schedule(p)

	held, sent, unsure, err := p.of.updateOne(ctx, p.raw, to.lease)
	if err == nil && !held {
		p.end(p.lost("it is gone from Redis"))
		return false, nil
	}
	p.mu.Lock()
	if unsure && to.lease > 0 && (p.most == 0 || to.lease < p.most) {
		p.most = to.lease
	}
	switch {
	case err == nil:
		p.term, p.until = to, p.validity(to.lease, sent)
	case !unsure: // the command was not executed
		p.term, p.until = was, until
	}
	p.changes++
	p.mu.Unlock()
	p.of.client.keeping.schedule(p)
	return held, err
}
