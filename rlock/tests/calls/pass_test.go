package calls_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
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
		shown := testbed.Inspected(t, w.Ctx, there)
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

func TestOnlyTheOnlyLevelOfOneLockIsPassedOn(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		outer := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		inner := testbed.Take(t, outer.Context(), p.NewLock(testbed.Key))
		require.ErrorIs(t, testbed.ErrorOf(outer.Pass(w.Ctx, time.Second)), rlock.ErrPass)
		require.NoError(t, inner.Release(w.Ctx))
		require.ErrorIs(t, testbed.ErrorOf(outer.Pass(w.Ctx, 0)), rlock.ErrInvalidLease)
		require.True(t, outer.Valid())

		many := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.ErrorIs(t, testbed.ErrorOf(many.Pass(w.Ctx, time.Second)), rlock.ErrPass)
		require.True(t, many.Valid())
		require.NoError(t, many.Release(w.Ctx))

		text := testbed.PassedOn(t, w.Ctx, outer, time.Minute)
		for name, bad := range map[string]string{
			"nothing": "", "another version": strings.Replace(text, "1", "2", 1), "cut": text[:len(text)-1], "longer": text + "A",
			"another letter": text[:20] + string(rune(text[20]^1)) + text[21:], "too long": text + strings.Repeat("A", 1<<20),
		} {
			require.ErrorIs(t, testbed.ErrorOf(p.Resume(w.Ctx, bad)), rlock.ErrInvalidPass, name)
		}
		testbed.Frees(t, w.Ctx, p.NewLock(testbed.Key))
		require.ErrorIs(t, testbed.ErrorOf(p.Resume(w.Ctx, text)), rlock.ErrNotPassed, "it was freed by force")
		outer = testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		text = testbed.PassedOn(t, w.Ctx, outer, time.Minute)
		hold, err := p.Resume(w.Ctx, text, rlock.WithLease(10*time.Second))
		require.NoError(t, err, "the process that has passed it on may resume it")
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
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

// Locks that are left to their lease: Detach.

func TestADetachedLockStaysUntilItsLeaseEnds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient().NewLock(testbed.Key)
		hold := testbed.Take(t, w.Ctx, here.NewLock(testbed.Key), rlock.WithLease(time.Minute))
		require.NoError(t, hold.Detach(w.Ctx))

		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Detach(w.Ctx), rlock.ErrNotHeld)
		sent := len(here.Net.Sent("EVALSHA"))
		time.Sleep(30 * time.Second)
		assert.Len(t, here.Net.Sent("EVALSHA"), sent, "commands were sent for the detached lock")
		require.NoError(t, here.Close())
		assert.Equal(t, 30*time.Second, w.Remaining(testbed.Key), "Close released it")
		testbed.Within(t, 30*time.Second, 32*time.Second, func() { require.NoError(t, there.Lock(w.Ctx)) })
		require.NoError(t, there.Unlock(w.Ctx))
	})
}

func TestADetachedLockKeepsItsOwnProcessOut(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
		hold := testbed.Take(t, me, lock, rlock.WithLease(10*time.Second))
		waiting := testbed.Start(func() error { return lock.Lock(me) }) // a nested level
		require.NoError(t, <-waiting)
		require.ErrorIs(t, hold.Detach(w.Ctx), rlock.ErrDetach, "a nested hold")
		require.NoError(t, lock.Unlock(me))
		waiting = testbed.Start(func() error { return lock.Lock(w.Ctx) })
		synctest.Wait()
		require.NoError(t, hold.Detach(w.Ctx))
		assert.False(t, w.IsFree(lock))
		assert.Zero(t, lock.HoldCount(me))
		testbed.Within(t, 9*time.Second, 12*time.Second, func() { require.NoError(t, <-waiting) })
	})
}

func TestOnlyAHoldWithALeaseOfOneLockCanBeDetached(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		kept := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		require.ErrorIs(t, kept.Detach(w.Ctx), rlock.ErrDetach)
		assert.True(t, kept.Valid())
		require.NoError(t, kept.Release(w.Ctx))
		both := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.WithLease(time.Minute))
		require.ErrorIs(t, both.Detach(w.Ctx), rlock.ErrDetach)
		require.NoError(t, both.Release(w.Ctx))
	})
}

func TestDetachReturnsWhenTheHoldEndsWhileRedisIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		for name, end := range map[string]func(p *testbed.Client, hold *rlock.Hold){
			"lost":   func(*testbed.Client, *rlock.Hold) {},
			"closed": func(p *testbed.Client, _ *rlock.Hold) { _ = p.Close() },
		} {
			p := w.NewClient()
			lock, me := p.NewLock(testbed.Key), w.Caller()
			require.NoError(t, lock.LockFor(me, time.Minute))
			hold := testbed.Take(t, me, lock, rlock.WithLease(10*time.Second))
			p.Net.Rule(network.Silence)
			require.NoError(t, lock.Unlock(me)) // the lease of a minute is to be shortened, which Redis does not confirm
			gone, cancel := context.WithCancel(w.Ctx)
			cancel()
			require.ErrorIs(t, hold.Detach(gone), context.Canceled)
			require.True(t, hold.Valid(), "Detach ended the hold")
			detached := testbed.Start(func() error { return hold.Detach(w.Ctx) })
			require.True(t, testbed.Pending(detached), name)
			end(p, hold)
			testbed.Within(t, 0, 10*time.Second, func() { require.Error(t, <-detached, name) })
			require.Error(t, context.Cause(hold.Context()), name)
			p.Net.Heal()
			time.Sleep(2 * time.Minute)
		}
	})
}
