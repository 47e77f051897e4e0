package rlockgocron_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/rlock"
	rlockgocron "github.com/go-rlock/rlock/rlock/gocron"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within fails the test unless the condition is true in that much virtual time.
func within(t *testing.T, limit time.Duration, condition func() bool) {
	t.Helper()
	for begin := time.Now(); !condition(); time.Sleep(limit / 600) {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v", limit)
		}
	}
}

func TestTheJobOfAnIntervalRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		first, second := rlockgocron.NewLocker(server.Client(), time.Second), rlockgocron.NewLocker(server.Client(), time.Second)
		lock, err := first.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		_, err = second.Lock(t.Context(), "report")
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		other, err := second.Lock(t.Context(), "cleanup")
		require.NoError(t, err, "another job")
		require.NoError(t, other.Unlock(t.Context()))
		time.Sleep(time.Second)
		lock, err = second.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

// Runs whose contexts carry one owner do not share the lock of the job.
func TestTheOwnerOfAContextDoesNotRunAJobTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker := rlockgocron.NewLocker(rlocktest.New(t), time.Second)
		ctx := rlock.WithOwner(t.Context(), rlock.NewOwner())
		lock, err := locker.Lock(ctx, "report")
		require.NoError(t, err)
		_, err = locker.Lock(ctx, "report")
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NoError(t, lock.Unlock(ctx))
	})
}

// The watchdog keeps the lock of a run that is longer than the splay.
func TestAJobThatRunsForLongIsSkippedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		lock, err := rlockgocron.NewLocker(server.Client(), time.Second).Lock(t.Context(), "report")
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		second := rlockgocron.NewLocker(server.Client(), time.Second)
		_, err = second.Lock(t.Context(), "report")
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NoError(t, lock.Unlock(t.Context()))
		_, err = second.Lock(t.Context(), "report")
		require.NoError(t, err, "at once, since the splay is over")
	})
}

func TestALockThatWasLostWhileTheJobRanIsAnErrorOfUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		lock, err := rlockgocron.NewLocker(server.Client(), time.Second).Lock(t.Context(), "report")
		require.NoError(t, err)
		server.Lose("gocron:report")
		assert.ErrorIs(t, lock.Unlock(t.Context()), rlock.ErrLost)
	})
}

func TestASplayThatIsNoLeaseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		for _, splay := range []time.Duration{-time.Second, 0} {
			_, err := rlockgocron.NewLocker(server.Client(), splay).Lock(t.Context(), "report")
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
		}
		server.AssertNothingHeld()
	})
}

// A nil client fails where the program is set up, and not in a job of the scheduler.
func TestANilClientPanicsAtOnce(t *testing.T) {
	require.Panics(t, func() { rlockgocron.NewLocker(nil, time.Second) })
	require.Panics(t, func() { rlockgocron.NewElector(nil, "lock:scheduler") })
}
