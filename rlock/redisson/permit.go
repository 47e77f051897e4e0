package redisson

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock"
)

// A Permit is one that this process holds. Its methods may be called concurrently.
type Permit struct {
	of    *PermitSemaphore
	raw   string
	lease time.Duration // 0: kept by the watchdog
	entry lease.Entry

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex // protects following
	until time.Time  // the end of its validity, as far as Redis has confirmed it
	over  bool       // released or lost
}

func (s *PermitSemaphore) newPermit(length time.Duration) (*Permit, error) {
	if err := s.checkLease(length); err != nil {
		return nil, err
	}
	p := &Permit{of: s, raw: s.client.newID(), lease: length}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p, nil
}

// ID returns the id of the permit, as Redisson writes it: for a release by another client, say.
func (p *Permit) ID() string { return hex.EncodeToString([]byte(p.raw)) }

// Context returns a context that ends when the permit does: with [rlock.ErrLost] as its cause before its lease can end in
// Redis, or when Redis has said that it is gone, and with [rlock.ErrClosed] when the client is closed.
func (p *Permit) Context() context.Context { return p.ctx }

// Err returns nil while the permit is held, then why it is not.
func (p *Permit) Err() error { return context.Cause(p.ctx) }

// Release gives the permit back. It returns [rlock.ErrLost] if it had ended before, and [rlock.ErrUnconfirmed] without an
// answer: then it ends with its lease. It may be called again.
func (p *Permit) Release(ctx context.Context) error {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.of.client.keeping.stop(p)
	n, _, err := p.of.ask(ctx, permitsRelease, p.raw)
	switch cause := p.Err(); {
	case err != nil:
	case n == 0 && cause != nil:
		err = cause
	case n == 0:
		err = p.lost("it is gone from Redis")
	}
	p.end(p.of.named(fmt.Errorf("permit %s: %w: it was released", p.ID(), rlock.ErrNotHeld)))
	return err
}

func (p *Permit) lost(why string) error {
	return p.of.named(fmt.Errorf("permit %s: %w: %s", p.ID(), rlock.ErrLost, why))
}

// length is that of the lease in Redis.
func (p *Permit) length() time.Duration {
	if p.lease > 0 {
		return p.lease
	}
	return p.of.client.shared.Config.Lease
}

// begin notes that the permit is taken, by a command that was sent then.
func (p *Permit) begin(sent time.Time) {
	p.confirm(sent)
	p.of.client.keeping.keep(p)
}

// confirm notes that Redis has the permit for a lease from a command that was sent then.
func (p *Permit) confirm(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = sent.Add(p.length() - lease.Drift(p.length(), p.of.client.shared.Tick))
}

// end ends the permit here.
func (p *Permit) end(cause error) {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.of.client.keeping.forget(p)
	p.cancel(cause)
}

// renewal is when the permit is renewed, or the end of its validity if it is not.
func (p *Permit) renewal(until time.Time) time.Time {
	if p.lease > 0 {
		return until
	}
	return until.Add(-2 * p.length() / 3)
}
