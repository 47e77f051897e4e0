// Package probe measures how soon a lock works again after a fault: one client takes and
// frees a lock all the time, and watches the renewals of another lock. It measures from
// outside, as a caller.
package probe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

const (
	// Lease is that of the probe's client: renewals are due at a third of it.
	Lease = 300 * time.Millisecond
	// interval is the time between two looks.
	interval = 2 * time.Millisecond
	// limit is how long one acquire may take before the next one is tried.
	limit = 5 * time.Second
)

// A Probe runs from Start to Close. Its methods may be called concurrently.
type Probe struct {
	client *rlock.Client
	cancel context.CancelFunc
	crew   sync.WaitGroup

	mu       sync.Mutex // protects following
	changed  chan struct{}
	acquired time.Time // when a lock was last taken and freed
	renewed  time.Time // when a renewal was last seen
}

// A Recovery is how long it took until locks worked again.
type Recovery struct {
	Acquire time.Duration // until one could be taken and freed
	Renewal time.Duration // until one was renewed
}

// Start starts a probe that connects by config, with a lease of its own.
func Start(config rlock.Config) (*Probe, error) {
	config.Lease = Lease
	client, err := rlock.New(config)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	p := &Probe{client: client, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.crew.Go(func() { p.acquire(ctx) })
	p.crew.Go(func() { p.renew(ctx) })
	return p, nil
}

// Close ends the probe and releases its locks.
func (p *Probe) Close() error {
	p.cancel()
	p.crew.Wait()
	return p.client.Close()
}

// Since waits until a lock was taken, and one renewed, after the given time, and returns how
// long that took.
func (p *Probe) Since(ctx context.Context, since time.Time) (Recovery, error) {
	for {
		p.mu.Lock()
		r := Recovery{p.acquired.Sub(since), p.renewed.Sub(since)}
		changed := p.changed
		p.mu.Unlock()
		if r.Acquire > 0 && r.Renewal > 0 {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r, fmt.Errorf("probe: no lock works again: %w", ctx.Err())
		}
	}
}

// note records that something has worked.
func (p *Probe) note(what *time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*what = time.Now()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Probe) acquire(ctx context.Context) {
	lock := p.client.NewLock("torture:probe:acquire")
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		hold, err := lock.Acquire(limited)
		if err == nil && hold.Release(ctx) == nil {
			p.note(&p.acquired)
		}
		cancel()
		pause(ctx)
	}
}

func (p *Probe) renew(ctx context.Context) {
	lock := p.client.NewLock("torture:probe:renew")
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, limit)
		hold, err := lock.Acquire(limited)
		cancel()
		if err != nil {
			continue
		}
		for until := hold.ValidUntil(); hold.Valid() && ctx.Err() == nil; pause(ctx) {
			if now := hold.ValidUntil(); now.After(until) {
				until = now
				p.note(&p.renewed)
			}
		}
		_ = hold.Release(ctx) // it may have been lost
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(interval):
	case <-ctx.Done():
	}
}
