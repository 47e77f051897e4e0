package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-rlock/rlock/rlock"
)

// A locker is a [gocron.Locker]: of all schedulers that are due with a job of that name, one
// runs it.
type locker struct {
	client *rlock.Client
	// least is for how long the others are refused at least, from when the job begins: longer
	// than their clocks differ, and shorter than the interval of the job.
	least time.Duration
}

// Lock returns an error if another scheduler has run the job in this interval, or runs it, and
// if l.least was over before the job could begin. gocron then skips the run, and nothing is
// held.
func (l locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	ran, err := l.client.NewLock("gocron:ran:"+job).TryAcquire(ctx, rlock.WithLease(l.least))
	if err != nil {
		return nil, err
	}
	runs, err := l.client.NewLock("gocron:runs:" + job).TryAcquire(ctx) // kept by the watchdog
	if err != nil {
		return nil, errors.Join(err, ran.Release(ctx))
	}
	if err := ran.Detach(ctx); err != nil {
		// gocron does not unlock after an error: the watchdog would keep the lock for ever.
		return nil, errors.Join(err, runs.Release(ctx))
	}
	return running{runs}, nil
}

// running is the lock of a job that runs.
type running struct{ hold *rlock.Hold }

// Unlock returns an error if the lock was lost while the job ran.
func (r running) Unlock(ctx context.Context) error { return r.hold.Release(ctx) }

// An elector is a [gocron.Elector]: one scheduler runs all jobs, until it ends or loses
// Redis, and then another one does.
type elector struct{ lock *rlock.Lock }

// lead has the scheduler stand for election until ctx ends.
func (e elector) lead(ctx context.Context) error {
	for ctx.Err() == nil {
		err := e.lock.Do(rlock.WithOwner(ctx, leader), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, rlock.ErrLost) {
			return fmt.Errorf("stand for election: %w", err)
		}
	}
	return nil
}

// leader is the owner of this process's leadership.
var leader = rlock.NewOwner()

// IsLeader judges by the clock, without asking Redis.
func (e elector) IsLeader(ctx context.Context) error {
	if !e.lock.IsHeld(rlock.WithOwner(ctx, leader)) {
		return errors.New("another scheduler leads")
	}
	return nil
}
