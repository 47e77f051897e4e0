package rlockgocron

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
)

// An Elector is a [gocron.Elector]: the scheduler whose process holds the lock runs all jobs. When
// the process ends or loses Redis, another one takes over. It is safe for concurrent use.
type Elector struct{ candidate *elect.Candidate }

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector for the schedulers with a lock of this name, which nothing else may
// use. The scheduler does not lead until Run is called and has acquired the lock. The options set
// the leader's text, and the function that is called, to end the process perhaps, if the jobs of
// [Elector.Task] outlive the lease: see package [elect]. It panics if the client is nil.
func NewElector(client *rlock.Client, name string, options ...elect.Option) *Elector {
	return &Elector{elect.New(client, name, options...)}
}

// Run stands for election until ctx ends, and leads whenever it holds the lock. Then it waits for
// the jobs of [Elector.Task], gives up the lock, and returns nil. For other jobs shut the scheduler
// down before ctx ends: those that run go on.
//
// While Redis cannot be reached, or refuses the commands of the lock, Run tries again. It returns
// [rlock.ErrClosed] if the client is closed.
func (e *Elector) Run(ctx context.Context) error {
	return e.candidate.Run(ctx, func(ctx context.Context, _ *rlock.Hold) error {
		<-ctx.Done()
		return ctx.Err()
	})
}

// Task returns the task of a job that belongs to the term: its context ends with the term and with
// the context of the job, and the next leader does not begin before the job has returned, unless
// the lease is lost.
//
//	scheduler.NewJob(gocron.DurationJob(time.Minute), elector.Task(report))
func (e *Elector) Task(job func(ctx context.Context) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error { return e.candidate.Do(ctx, job) })
}

// IsLeader returns nil if this scheduler leads, and [elect.ErrNotLeader] otherwise. It judges by
// the clock, without a command to Redis: before Redis can grant the lock to another scheduler, this
// one does not lead any more. A job that has begun goes on: see Task.
func (e *Elector) IsLeader(context.Context) error {
	if e.Term() == nil {
		return elect.ErrNotLeader
	}
	return nil
}

// Term returns the hold of the current term, or nil if this scheduler does not lead. A job that
// writes where a former leader may still write compares its token.
func (e *Elector) Term() *rlock.Hold { return e.candidate.Term() }

// Leader asks Redis for the text of the process that leads, by default "<host>:<process ID>": see
// [elect.Candidate.Leader].
func (e *Elector) Leader(ctx context.Context) (string, error) { return e.candidate.Leader(ctx) }
