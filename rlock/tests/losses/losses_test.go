package losses_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that has reconnected asks at once whether its locks are still there.

func TestVerifyingTakesFewCommandsHoweverOftenConnectionsEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.Ctx))
		}
		before := len(p.Net.Sent("EVALSHA"))
		for range 50 { // in 5 seconds
			p.Net.Cut()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, len(p.Net.Sent("EVALSHA"))-before, 2*10*320/32, "batches, soon once a second, and those that a cut has interrupted; 50 times without the pauses")
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Unlock(w.Ctx))
		}
	})
}

// unlogged discards the log of a client that loses many locks.
func unlogged(c *rlock.Config) { c.Logger = testbed.Quiet }

func TestAnUnlockDoesNotDenyALossThatIsForgotten(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(unlogged)
		first, me := p.NewFencedLock(testbed.Key), w.Caller()
		require.NoError(t, first.LockFor(me, time.Second))
		time.Sleep(time.Second)
		_, err := first.Token(w.Caller())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")

		read := p.NewReadWriteLock("many").Read() // its owners are one reader to Redis
		for range 11_000 {                        // more than a client remembers
			require.NoError(t, read.LockFor(w.Caller(), time.Second))
		}
		last, lastOwner := p.NewLock("last"), w.Caller()
		require.NoError(t, last.LockFor(lastOwner, 2*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		either := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		either(first.Unlock(me))
		_, err = first.Token(me)
		either(err)
		either(last.Unlock(me))
		either(rlock.NewMultiLock(first, last).Unlock(me))

		err = last.Unlock(lastOwner)
		require.ErrorIs(t, err, rlock.ErrLost)
		require.NotErrorIs(t, err, rlock.ErrNotHeld, "the latest loss is remembered")

		hold := testbed.Take(t, w.Ctx, first)
		require.NoError(t, hold.Release(w.Ctx))
		err = hold.Release(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "a handle remembers its own loss")
	})
}
