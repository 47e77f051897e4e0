package calls_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func eachPassable(t *testing.T, run func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock)) {
	locks := testbed.LocksOf()
	for name, lock := range locks {
		rival := lock // that excludes the holder
		if name == "read" {
			rival = locks["write"]
		}
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) { run(t, w, lock, rival) })
		})
	}
}

func TestALockIsPassedOnAndResumed(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		var told []rlock.ReleasedInfo
		var by []rlock.AcquiredBy
		here := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Released: func(_ context.Context, i rlock.ReleasedInfo) { told = append(told, i) }}
		})
		there := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Acquired: func(_ context.Context, i rlock.AcquiredInfo) { by = append(by, i.AcquiredBy) }}
		})
		others := rival(w.NewClient().Client)
		hold := testbed.Take(t, w.Ctx, lock(here.Client))
		before, _ := hold.Token()
		sent := len(here.Net.Sent("EVALSHA")) + len(here.Net.Sent("EVAL"))
		text := testbed.PassedOn(t, w.Ctx, hold, 5*time.Second)
		assert.LessOrEqual(t, len(here.Net.Sent("EVALSHA"))+len(here.Net.Sent("EVAL"))-sent, 2, "EVALSHA, and EVAL for a new script")
		assert.Less(t, len(text), 200)

		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrPassed)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.False(t, hold.Valid())
		assert.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		assert.ErrorIs(t, testbed.ErrorOf(hold.Pass(w.Ctx, time.Second)), rlock.ErrNotHeld)
		assert.Empty(t, here.Held())
		assert.Zero(t, here.Stats().Held)
		require.Len(t, told, 1)
		assert.True(t, told[0].Passed)
		shown := testbed.Inspected(t, w.Ctx, there.Client)
		require.Len(t, shown.Holders, 1)
		assert.True(t, shown.Holders[0].Passed)
		assert.Equal(t, 5*time.Second, shown.Holders[0].Lease)

		waits := testbed.Start(func() error { return others.Lock(w.Ctx) })
		time.Sleep(4 * time.Second)
		require.NoError(t, here.Close(), "and Close leaves it")
		resumed, err := there.Resume(w.Ctx, text)
		require.NoError(t, err)
		require.Equal(t, []rlock.AcquiredBy{rlock.ByPass}, by)
		after, _ := resumed.Token()
		assert.Equal(t, before, after)
		require.ErrorIs(t, testbed.ErrorOf(w.NewClient().Resume(w.Ctx, text)), rlock.ErrNotPassed)
		require.ErrorIs(t, testbed.ErrorOf(there.Resume(w.Ctx, text)), rlock.ErrNotPassed)
		time.Sleep(2 * time.Minute) // the watchdog renews it
		require.True(t, resumed.Valid())
		require.True(t, testbed.Pending(waits))
		text = testbed.PassedOn(t, w.Ctx, resumed, 5*time.Second)
		testbed.Within(t, 5*time.Second, 8*time.Second, func() { require.NoError(t, <-waits) })
		_, err = there.Resume(w.Ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed, "its time is over, and the first waiter has it")
	})
}

// Of all that resume one wins, also on a real server, and beside the passer's renewals.
func TestOneClientWinsTheRaceForAPass(t *testing.T) {
	races := 100
	if *testbed.Long {
		races = 10_000
	}
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		var clients []*rlock.Client
		for range 3 {
			c, err := rlock.New(rlock.Config{Redis: s.Options()})
			require.NoError(t, err)
			defer c.Close()
			clients = append(clients, c)
		}
		ctx := t.Context()
		for n := range races {
			hold := testbed.Take(t, ctx, clients[n%3].NewLock(testbed.Key))
			text := testbed.PassedOn(t, ctx, hold, 10*time.Second)
			var won atomic.Pointer[rlock.Hold]
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					h, err := c.Resume(ctx, text)
					switch {
					case err == nil && !won.CompareAndSwap(nil, h):
						t.Error("two have resumed the lock")
					case err != nil && !errors.Is(err, rlock.ErrNotPassed):
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.NotNil(t, won.Load(), "none has resumed the lock")
			require.NoError(t, won.Load().Release(ctx))
		}
	})
}
