package elect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/contract"
)

// ErrNotLeader is the error of [Candidate.Do] in a process that does not lead, and ErrNoLeader the
// error of [Candidate.Leader] while no process leads.
var (
	ErrNotLeader = errors.New("elect: this process does not lead")
	ErrNoLeader  = errors.New("elect: no process leads")
)

// ErrRunning is the error of [Candidate.Run] while another Run of the candidate is in progress.
var ErrRunning = errors.New("elect: this candidate stands already")

// A Candidate is a process that may become the leader. It is safe for concurrent use.
type Candidate struct {
	client  *rlock.Client
	lock    *rlock.Lock
	text    string
	overrun func()               // the function of WithOverrun
	current atomic.Pointer[term] // the current term; nil between terms
	stands  atomic.Bool          // a Run is in progress
}

// An Option changes a Candidate; nil changes nothing.
type Option func(*Candidate)

// WithText sets the leader's text, at most 1 KiB. Defaults to "<host>:<process ID>".
func WithText(text string) Option { return func(c *Candidate) { c.text = text } }

// WithOverrun sets the function that is called if the work of a term still runs when the lease has
// ended. It may end the process, so that two processes never lead at once for long:
//
//	elect.WithOverrun(func() { log.Fatal("the work of the leader did not stop") })
//
// The default, also for nil, logs a message at level Error of [slog.Default].
func WithOverrun(overrun func()) Option {
	return func(c *Candidate) {
		if overrun != nil {
			c.overrun = overrun
		}
	}
}

// New returns a candidate for the lock of that name, which nothing else may use. New sends no
// command; the candidate can lead only during [Candidate.Run]. New panics if the client is nil.
func New(client *rlock.Client, name string, options ...Option) *Candidate {
	host, _ := os.Hostname()
	c := &Candidate{
		client: client, lock: client.NewFencedLock(name), text: fmt.Sprintf("%s:%d", host, os.Getpid()),
		overrun: func() {
			slog.Error("elect: the work of a leader outlives its lease: another process may lead beside it", "lock", name)
		},
	}
	for _, option := range options {
		if option != nil {
			option(c)
		}
	}
	return c
}

// Run waits for the lock, calls lead, and releases the lock when lead and all functions of
// [Candidate.Do] have returned. After a loss it waits for the lock again. It returns
//   - nil when ctx has ended,
//   - the error of lead, also nil, if lead returns before its context ends: then another process
//     may lead,
//   - the error of lead if that is not the error of its context,
//   - [rlock.ErrClosed], and [rlock.ErrInvalidName].
//
// While Redis cannot be reached, or refuses the commands of the lock, for example because a right
// is missing, Run tries again, at least every ten seconds. It logs refusals at level Warn of
// [slog.Default], at most once a minute.
//
// The context of lead ends with the term and with ctx. The term is also the term of
// [Candidate.Term]. One Run of a candidate may be in progress: a second Run returns [ErrRunning] at
// once. An owner in ctx does not count: see [rlock.WithOwner].
func (c *Candidate) Run(ctx context.Context, lead func(ctx context.Context, term *rlock.Hold) error) error {
	if !c.stands.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.stands.Store(false)
	standing := rlock.WithOwner(ctx, 0) // two candidates with one owner in their contexts would both lead
	for again := (retry{name: c.lock.Name()}); ; {
		hold, err := c.lock.Acquire(standing, contract.Standing, rlock.WithNote(c.text)) // a standby may wait for weeks
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil && isFinal(err):
			return fmt.Errorf("elect: stand for %q: %w", c.lock.Name(), err)
		case err != nil:
			again.wait(ctx, err)
			continue
		}
		again.reset()
		resigned, err := c.serve(ctx, hold, lead)
		if resigned || err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// Do calls work as a part of the current term: the context of work ends with the term and with ctx,
// and the lock is not released before work returns. In a process that does not lead Do returns
// [ErrNotLeader], and work is not called.
func (c *Candidate) Do(ctx context.Context, work func(ctx context.Context) error) error {
	t := c.current.Load()
	if t == nil || !t.begin() {
		return ErrNotLeader
	}
	defer t.running.Done()
	ctx, cancel := context.WithCancelCause(t.hold.With(ctx))
	defer cancel(nil)
	defer context.AfterFunc(t.work, func() { cancel(context.Cause(t.work)) })()
	return work(ctx)
}

// Term returns the hold of the current term, or nil if this process does not lead. It judges by the
// clock, without a command: it returns nil before Redis can grant the lock to another process. Work
// that has begun goes on until it sees the end of its context.
func (c *Candidate) Term() *rlock.Hold {
	t := c.current.Load()
	if t == nil || t.work.Err() != nil || !t.hold.Valid() {
		return nil
	}
	return t.hold
}

// Leader asks Redis for the text of the leader. It returns [ErrNoLeader] if the lock is free.
func (c *Candidate) Leader(ctx context.Context) (string, error) {
	i, err := inspect.Of(c.client).Lock(ctx, c.lock.Name())
	switch {
	case err != nil:
		return "", err
	case len(i.Holders) == 0:
		return "", ErrNoLeader
	}
	return i.Holders[0].Note, nil
}
