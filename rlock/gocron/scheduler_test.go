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

func TestOfThreeSchedulersOneRunsAJob(t *testing.T) {
	locker := func(c *rlock.Client) gocron.SchedulerOption {
		return gocron.WithDistributedLocker(rlockgocron.NewLocker(c, splay))
	}
	for how, x := range map[string]struct {
		with         func(context.Context, *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption)
		ran, skipped int64
	}{
		"a locker": {func(_ context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
			return []gocron.SchedulerOption{locker(c)}, nil
		}, 1, 2},
		"a locker of the job": {func(_ context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
			return nil, []gocron.JobOption{gocron.WithDistributedJobLocker(rlockgocron.NewLocker(c, splay))}
		}, 1, 2},
		"a job that uses no locker": {func(_ context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
			return []gocron.SchedulerOption{locker(c)}, []gocron.JobOption{gocron.WithDisabledDistributedJobLocker(true)}
		}, 3, 0},
		"an elector": {func(ctx context.Context, c *rlock.Client) ([]gocron.SchedulerOption, []gocron.JobOption) {
			elector := rlockgocron.NewElector(c, "leader")
			go func() { _ = elector.Run(ctx) }()
			synctest.Wait() // the first one leads
			return []gocron.SchedulerOption{gocron.WithDistributedElector(elector)}, nil
		}, 1, 0},
	} {
		ran, skipped := schedulers(t, x.with)
		assert.Equal(t, x.ran, ran, how)
		assert.Equal(t, x.skipped, skipped, how)
	}
}
