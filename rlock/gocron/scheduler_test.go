package rlockgocron_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	rlockgocron "github.com/go-rlock/rlock/rlock/gocron"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

const splay = 500 * time.Millisecond

// schedulers starts three schedulers with a client each and one job, which begins at once, takes
// 100 ms and runs once at most in each scheduler, as in gocron's own test of distributed
// schedulers. It returns how often the job ran, and how often it was skipped for want of a lock.
func schedulers(t *testing.T, with func(context.Context, *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption)) (ran, skipped int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		var runs, skips atomic.Int64
		for range 3 {
			ofScheduler, ofJob := with(t.Context(), server.Client())
			scheduler, err := gocron.NewScheduler(ofScheduler...)
			require.NoError(t, err)
			scheduler.Start()
			_, err = scheduler.NewJob(gocron.DurationJob(time.Second),
				gocron.NewTask(func() { time.Sleep(100 * time.Millisecond); runs.Add(1) }),
				append([]gocron.JobOption{
					gocron.WithName("job"), gocron.WithStartAt(gocron.WithStartImmediately()), gocron.WithLimitedRuns(1),
					gocron.WithEventListeners(gocron.AfterLockError(func(uuid.UUID, string, error) { skips.Add(1) })),
				}, ofJob...)...)
			require.NoError(t, err)
			defer func() { require.NoError(t, scheduler.Shutdown()) }()
		}
		time.Sleep(splay)
		ran, skipped = runs.Load(), skips.Load()
	})
	return ran, skipped
}

func TestOneOfThreeSchedulersWithALockerRunsAJob(t *testing.T) {
	ran, skipped := schedulers(t, func(_ context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
		return []gocron.SchedulerOption{gocron.WithDistributedLocker(rlockgocron.NewLocker(c, splay))}, nil
	})
	assert.EqualValues(t, 1, ran)
	assert.EqualValues(t, 2, skipped)
}

func TestOneOfThreeSchedulersRunsAJobWithALocker(t *testing.T) {
	ran, skipped := schedulers(t, func(_ context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
		return nil, []gocron.JobOption{gocron.WithDistributedJobLocker(rlockgocron.NewLocker(c, splay))}
	})
	assert.EqualValues(t, 1, ran)
	assert.EqualValues(t, 2, skipped)
}

func TestAllSchedulersRunAJobThatUsesNoLocker(t *testing.T) {
	ran, skipped := schedulers(t, func(_ context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
		return []gocron.SchedulerOption{gocron.WithDistributedLocker(rlockgocron.NewLocker(c, splay))},
			[]gocron.JobOption{gocron.WithDisabledDistributedJobLocker(true)}
	})
	assert.EqualValues(t, 3, ran)
	assert.Zero(t, skipped)
}

func TestOneOfThreeSchedulersWithAnElectorRunsAJob(t *testing.T) {
	ran, _ := schedulers(t, func(ctx context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
		elector := rlockgocron.NewElector(c, "leader")
		go func() { _ = elector.Run(ctx) }()
		synctest.Wait() // the first one leads
		return []gocron.SchedulerOption{gocron.WithDistributedElector(elector)}, nil
	})
	assert.EqualValues(t, 1, ran)
}

// A job of more than the lease and the splay runs alone: the official locker over Redis never
// extends its lock.
func TestALongJobRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		const job = 5 * time.Minute
		var now, most, runs atomic.Int64
		var over atomic.Bool
		for range 3 {
			scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(rlockgocron.NewLocker(server.Client(), splay)))
			require.NoError(t, err)
			_, err = scheduler.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(func() {
				if over.Load() {
					return
				}
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(job)
				now.Add(-1)
				runs.Add(1)
			}), gocron.WithName("job"), gocron.WithStartAt(gocron.WithStartImmediately()))
			require.NoError(t, err)
			scheduler.Start()
			defer func() { require.NoError(t, scheduler.Shutdown()) }()
		}
		time.Sleep(4 * job)
		assert.EqualValues(t, 1, most.Load(), "at a time")
		assert.GreaterOrEqual(t, runs.Load(), int64(3))
		over.Store(true)
		time.Sleep(job) // Shutdown does not wait as long
	})
}
