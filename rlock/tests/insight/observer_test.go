package insight_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func withObserver(o *rlock.Observer) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Observer = o }
}

// The renewals of a batch may fail for one lock, or for all.
func TestAnObserverIsToldOfEachBatchOfRenewals(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		batches := make(chan rlock.RenewedInfo, 100)
		p := w.NewClient(testbed.WithLease(3*time.Second), withObserver(&rlock.Observer{Renewed: func(i rlock.RenewedInfo) { batches <- i }}))
		me := w.Caller()
		for i := range 40 {
			require.NoError(t, p.NewLock(fmt.Sprint(i)).Lock(me))
		}
		time.Sleep(1100 * time.Millisecond)
		first := <-batches
		assert.Empty(t, batches)
		assert.EqualValues(t, 40, p.Stats().Renewals)
		assert.EqualValues(t, 40+2, p.Stats().Commands, "two batches, one of 32 keys")
		assert.InDelta(t, 2, first.Margin.Seconds(), 0.1)
		first.Margin, first.Took = 0, 0
		assert.Equal(t, rlock.RenewedInfo{Client: p.Client, Locks: 40, Kept: 40, Lease: 3 * time.Second}, first)
		w.Del("7")
		time.Sleep(time.Second)
		second := <-batches
		assert.Equal(t, []int{40, 1}, []int{second.Locks, second.Failed})
		w.AnswerScripts("ERR no script today")
		time.Sleep(time.Second)
		third := <-batches
		assert.Equal(t, 39, third.Failed)
		require.ErrorContains(t, third.Err, "no script today")
		w.AnswerScripts("")
	})
}

func TestAHookThatPanicsBreaksNothingAndIsLoggedOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(testbed.WithLease(3*time.Second), withObserver(&rlock.Observer{
			Opened:   func(*rlock.Client) { panic("boom") },
			Waiting:  func(context.Context, rlock.WaitingInfo) { panic("boom") },
			Acquired: func(context.Context, rlock.AcquiredInfo) { panic("boom") },
			GaveUp:   func(context.Context, rlock.GaveUpInfo) { panic("boom") },
			Released: func(context.Context, rlock.ReleasedInfo) { panic("boom") },
			Lost:     func(context.Context, rlock.LostInfo) { panic("boom") },
			Renewed:  func(rlock.RenewedInfo) { panic("boom") },
			Closed:   func(*rlock.Client) { panic("boom") },
		}))
		lock, me, them := p.NewLock(testbed.Key), w.Caller(), w.Caller()
		for range 3 {
			require.NoError(t, lock.Lock(me))
			require.False(t, testbed.Tries(t, them, lock))
			theirs := testbed.Start(func() error { return lock.Lock(them) })
			synctest.Wait()
			time.Sleep(10 * time.Second)
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-theirs)
			w.Del(testbed.Key)
			w.Eventually(func() bool { return !lock.IsHeld(them) }, "the lock is lost")
			require.ErrorIs(t, lock.Unlock(them), rlock.ErrLost)
		}
		require.NoError(t, p.Close())
		for _, hook := range []string{"Opened", "Waiting", "Acquired", "GaveUp", "Released", "Lost", "Renewed", "Closed"} {
			assert.Equal(t, 1, p.Logged("hook="+hook+" panic=boom"), hook)
		}
	})
}

func TestAnObserverIsToldHowManyCallsItMissed(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		resume := make(chan struct{})
		var lost, missed int // written by one goroutine, which ends with Close
		p := w.NewClient(testbed.WithLease(3*time.Second), func(c *rlock.Config) { c.Logger = testbed.Quiet }, withObserver(&rlock.Observer{
			Lost:   func(context.Context, rlock.LostInfo) { <-resume; lost++ },
			Missed: func(n int) { missed += n },
		}))
		const losses = 4100
		lock := p.NewReadWriteLock(testbed.Key).Read()
		for range losses {
			require.NoError(t, lock.Lock(w.Caller()))
		}
		w.Del(testbed.Key)
		time.Sleep(10 * time.Second)
		close(resume)
		synctest.Wait()
		require.NoError(t, p.Close())
		assert.Equal(t, losses, lost+missed)
		assert.Contains(t, []int{4000, 4001}, lost, "those in the buffer, and perhaps one that was being reported")
	})
}

// allocations returns how many a call makes. It is the least of several measurements, since
// goroutines that an earlier test has left behind may allocate during one.
func allocations(call func()) float64 {
	least := testing.AllocsPerRun(100, call)
	for range 9 {
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}

func TestAnObserverThatIsNilAllocatesNothing(t *testing.T) {
	if driver.AssertsRules {
		t.Skip("what could assert the rules allocates")
	}
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		synctest.Wait()
		assert.Zero(t, allocations(func() {
			_ = lock.Lock(me)
			_ = lock.Unlock(me)
			_, _ = lock.TryLock(w.Ctx)
		}))
		assert.Zero(t, allocations(func() { _ = p.Stats() }))
		require.NoError(t, lock.Unlock(me))
	})
}
