package groups_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests over all kinds cover MultiLock as one of the kinds. These are the differences.

func TestAMultiLockOfNothingIsErrInvalidConfig(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		var none *rlock.Lock
		for what, bad := range map[string]struct {
			lock *rlock.Lock
			err  error
		}{
			"none":          {rlock.NewMultiLock(), rlock.ErrInvalidConfig},
			"nil":           {rlock.NewMultiLock(p.NewLock("a"), nil), rlock.ErrInvalidConfig},
			"a nil lock":    {rlock.NewMultiLock(none), rlock.ErrInvalidConfig},
			"one of none":   {rlock.NewMultiLock(rlock.NewMultiLock()), rlock.ErrInvalidConfig},
			"a red of none": {rlock.NewMultiLock(rlock.NewRedLock(nil, "a")), rlock.ErrInvalidConfig},
			"a zero lock":   {rlock.NewMultiLock(&rlock.Lock{}), rlock.ErrInvalidConfig},
			"zero":          {&rlock.Lock{}, rlock.ErrInvalidConfig},
			"a bad name":    {rlock.NewMultiLock(p.NewLock("a"), p.NewLock("")), rlock.ErrInvalidName},
		} {
			for method, err := range testbed.EveryMethod(w.Ctx, bad.lock) {
				assert.ErrorIs(t, err, bad.err, "%s: %s", what, method)
			}
			assert.False(t, bad.lock.IsHeld(w.Ctx))
			assert.Zero(t, bad.lock.HoldCount(w.Ctx))
			_ = bad.lock.Name()
		}
		assert.Empty(t, p.Net.Sent("EVALSHA"), "no command")
	})
}

func TestTheOrderOfAMultiLockTellsTheDatabasesOfAServerApart(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		me := w.Caller()
		there := w.NewClient(func(c *rlock.Config) { c.Redis.SelectDB = 1 })
		first, second := w.NewClient().NewLock(testbed.Key), there.NewLock(testbed.Key)
		require.NoError(t, w.NewClient().NewLock(testbed.Key).Lock(w.Caller()))
		for _, lock := range []*rlock.Lock{rlock.NewMultiLock(first, second), rlock.NewMultiLock(second, first)} {
			require.False(t, testbed.TriesFor(t, me, lock, time.Second))
		}
		assert.Empty(t, there.Acquires(), "a waiter for the first part must not ask for others")
	})
}

// The acquires of nine parts, each of another client than the one before, take longer than the lease.
func TestAMultiLockWhoseLeaseIsShorterThanItsAcquireIsHeldForAllOfIt(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		clients, me := []*testbed.Client{w.NewClient(), w.NewClient()}, w.Caller()
		var locks []*rlock.Lock
		for i := range 9 {
			locks = append(locks, clients[i%2].NewLock(fmt.Sprint("part", i)))
		}
		lock := rlock.NewMultiLock(locks...)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		for _, p := range clients {
			p.Net.SetRoundTrip(100 * time.Millisecond)
		}
		hold := testbed.Take(t, me, lock, rlock.WithLease(500*time.Millisecond), rlock.WithWait(3*time.Second))
		begin := time.Now()
		time.Sleep(100 * time.Millisecond)
		assert.InDelta(t, 400*time.Millisecond, time.Until(hold.ValidUntil()), float64(20*time.Millisecond))
		<-hold.Context().Done()
		assert.InDelta(t, 500*time.Millisecond, time.Since(begin), float64(20*time.Millisecond))
		require.ErrorIs(t, hold.Release(me), rlock.ErrLost)
	})
}

// A hundred free names take as many round trips as one, and a command for thirty-two of them.
func TestFreeNamesAreAcquiredInOneRoundTrip(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		var locks []*rlock.Lock
		for i := range 100 {
			locks = append(locks, p.NewLock(fmt.Sprint("part", i)))
		}
		lock := rlock.NewMultiLock(locks...)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		p.Net.SetRoundTrip(100 * time.Millisecond)
		sent := len(p.Net.Sent("EVALSHA"))
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() { require.NoError(t, lock.Lock(me)) })
		assert.Equal(t, 4, len(p.Net.Sent("EVALSHA"))-sent)
		require.NoError(t, lock.Unlock(me))

		require.NoError(t, w.NewClient().NewLock("part50").Lock(w.Caller()))
		testbed.Within(t, 100*time.Millisecond, 300*time.Millisecond, func() {
			assert.False(t, testbed.Tries(t, me, lock))
		})
	})
}
