// Package rlockgocron has the Locker and the Elector of github.com/go-co-op/gocron over rlock, for
// schedulers in several processes that have the same jobs. With a Locker, one of the schedulers
// that are due runs a job; with an Elector, one scheduler runs all jobs.
//
//	import rlockgocron "github.com/go-rlock/rlock/rlock/gocron"
//
//	locker := rlockgocron.NewLocker(client, 10*time.Second)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
//	elector := rlockgocron.NewElector(client, "lock:scheduler")
//	go elector.Run(ctx)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
package rlockgocron

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-rlock/rlock/rlock"
)

// A Locker is a [gocron.Locker]. It is safe for concurrent use.
type Locker struct {
	client *rlock.Client
	splay  time.Duration
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker that has its locks in the Redis of client. It panics if client is nil.
//
// The splay is the time, from the beginning of a run, for which the other schedulers skip the job,
// also if the run is shorter. Choose more than the clocks of the schedulers differ, and less than
// the interval of the job. A job with another interval has a Locker of its own, by
// [gocron.WithDistributedJobLocker].
func NewLocker(client *rlock.Client, splay time.Duration) *Locker {
	if client == nil {
		panic("rlockgocron: NewLocker: the client is nil")
	}
	return &Locker{client: client, splay: splay}
}

// Lock returns the lock of one run of the job, which is "gocron:<job>" in Redis. The watchdog
// renews the lock until Unlock, however long the job runs. After that the lock stays for the rest
// of the splay ([rlock.WithMinHold]). If the process dies while the job runs, the job may run
// elsewhere once Config.Lease has ended.
//
// It does not wait. It fails with [rlock.ErrNotAcquired] if another scheduler runs the job or has
// begun a run within the splay, with [rlock.ErrInvalidLease] if the splay is not positive, and with
// the errors of [rlock.Lock.Acquire]. After an error gocron skips the run, and nothing is held.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if l.splay <= 0 {
		return nil, fmt.Errorf("rlockgocron: %w: the splay is %v: give NewLocker one that is longer than clocks differ", rlock.ErrInvalidLease, l.splay)
	}
	ctx = rlock.WithOwner(ctx, 0) // schedulers, or runs, with one owner in their contexts would run the job at once
	runs, err := l.client.NewLock("gocron:"+job).Acquire(ctx, rlock.WithWait(0), rlock.WithMinHold(l.splay))
	if err != nil {
		return nil, err
	}
	return run{runs}, nil
}

// A run is the lock of a job that is running.
type run struct{ hold *rlock.Hold }

// Unlock returns [rlock.ErrLost] if the lock was lost while the job ran, so that another scheduler
// may have run it as well, and [rlock.ErrUnconfirmed] if Redis does not confirm that the lock stays
// for the rest of the splay. gocron ignores the error; rlock has logged a loss.
func (r run) Unlock(ctx context.Context) error { return r.hold.Release(ctx) }
