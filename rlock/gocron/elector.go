package rlockgocron

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-rlock/rlock/rlock"
)

// ErrNotLeader is returned by [Elector.IsLeader] of a scheduler that does not lead.
var ErrNotLeader = errors.New("rlockgocron: another scheduler leads")

// An Elector is a [gocron.Elector]: the scheduler whose process holds the lock runs all jobs.
// When the process ends or loses Redis, another one takes over. It is safe for concurrent use.
type Elector struct {
	lock *rlock.Lock
	hold atomic.Pointer[rlock.Hold] // of the current term, nil between terms
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector for the schedulers that have this lock, which nothing else may
// use. With a lock of [rlock.Client.NewFencedLock] each term has a token. The scheduler does
// not lead until Run is called and has acquired the lock.
func NewElector(lock *rlock.Lock) *Elector { return &Elector{lock: lock} }

// Run stands for election until ctx ends, and leads whenever it holds the lock. Then it
// gives up the lock, and returns nil. Shut the scheduler down before ctx ends: jobs that
// run go on.
//
// While Redis cannot be reached Run tries again. It returns an error if the lock cannot be
// used, such as [rlock.ErrClosed].
func (e *Elector) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		hold, err := e.lock.Acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("rlockgocron: stand for election: %w", err)
		}
		e.hold.Store(hold)
		select {
		case <-hold.Context().Done():
		case <-ctx.Done():
		}
		e.hold.Store(nil)
		_ = hold.Release(ctx) // rlock has logged a loss, and retries a release without an answer
	}
	return nil
}

// IsLeader returns nil if this scheduler leads, and ErrNotLeader otherwise. It judges by the
// clock, without a command to Redis: before Redis can grant the lock to another scheduler, this
// one does not lead any more. A job that has begun goes on: see Hold.
func (e *Elector) IsLeader(context.Context) error {
	if hold := e.Hold(); hold == nil || !hold.Valid() {
		return ErrNotLeader
	}
	return nil
}

// Hold returns the hold of the current term, or nil if this scheduler does not lead. A job that
// must not outlive the term uses the hold's context, and one that writes where a former
// leader may still write compares its token.
func (e *Elector) Hold() *rlock.Hold { return e.hold.Load() }
