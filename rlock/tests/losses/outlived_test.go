package losses_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A context of a hold is worth something while the hold is held. Work that goes on after it, with
// context.WithoutCancel, is without the hold: owners.txt, pass.txt and observer.txt of stories have
// its waits, owners and levels.

// holdings are the ways to come by a context of a hold: each calls use within the hold.
var holdings = map[string]func(ctx context.Context, lock testbed.Locker, use func(context.Context)) error{
	"Do": func(ctx context.Context, lock testbed.Locker, use func(context.Context)) error {
		return lock.Do(ctx, func(ctx context.Context) error { use(ctx); return nil })
	},
	"Context": func(ctx context.Context, lock testbed.Locker, use func(context.Context)) error {
		return within(ctx, lock, func(h *rlock.Hold) { use(h.Context()) })
	},
	"With": func(ctx context.Context, lock testbed.Locker, use func(context.Context)) error {
		return within(ctx, lock, func(h *rlock.Hold) { use(h.With(ctx)) })
	},
	"a nested hold": func(ctx context.Context, lock testbed.Locker, use func(context.Context)) error {
		return lock.Do(ctx, func(ctx context.Context) error {
			return within(ctx, lock, func(h *rlock.Hold) { use(h.Context()) })
		})
	},
}

func within(ctx context.Context, lock testbed.Locker, use func(*rlock.Hold)) error {
	h, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	use(h)
	return h.Release(ctx)
}

// eachHolding runs a test for each kind and each way to come by a context.
func eachHolding(t *testing.T, run func(t *testing.T, w *testbed.VirtualKind, lock *testbed.Trial, hold func(use func(context.Context)))) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		for name, holding := range holdings {
			lock := p.NewLock(testbed.Key)
			run(t, w, lock, func(use func(context.Context)) {
				require.NoError(t, holding(w.Ctx, lock, use), name)
			})
			w.Drain()
			assert.Empty(t, inspect.Of(p.Clients[0]).Held(), name)
		}
	})
}

// job holds the lock in a goroutine of its own until the returned function is called.
func job(t *testing.T, ctx context.Context, lock testbed.Locker) (end func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	done := testbed.Start(func() error {
		return lock.Do(ctx, func(context.Context) error { close(entered); <-leave; return nil })
	})
	select {
	case <-entered:
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.FailNow(t, "the job waits")
	}
	return func() {
		close(leave)
		require.NoError(t, testbed.Soon(done))
	}
}

// assertExcluded asserts that no call with ctx gets the lock now, neither in the test's goroutine
// nor in another one.
func assertExcluded(t *testing.T, ctx context.Context, lock testbed.Locker) {
	t.Helper()
	inside := func(context.Context) error { t.Error("two are inside"); return nil }
	tries := func() {
		assert.ErrorIs(t, lock.Do(ctx, inside, rlock.WithWait(0)), rlock.ErrNotAcquired)
		h, err := lock.Acquire(ctx, rlock.WithWait(0))
		assert.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.Nil(t, h)
		taken, err := lock.TryLock(ctx)
		assert.NoError(t, err)
		assert.False(t, taken)
		assert.False(t, lock.IsHeld(ctx))
	}
	tries()
	testbed.Elsewhere(tries)
}

func TestJobsWithTheContextOfAHoldThatIsOverExcludeEachOther(t *testing.T) {
	eachHolding(t, func(t *testing.T, w *testbed.VirtualKind, lock *testbed.Trial, hold func(func(context.Context))) {
		var background context.Context
		hold(func(ctx context.Context) { background = context.WithoutCancel(ctx) })
		end := job(t, background, lock)
		assertExcluded(t, background, lock.Rival)
		assertExcluded(t, w.Ctx, lock.Rival)
		next := testbed.Waits(t, func() error { return lock.Rival.Do(background, func(context.Context) error { return nil }) })
		end()
		require.NoError(t, testbed.Soon(next))
	})
}

func TestAJobThatIsInsideWhenItsHoldEndsKeepsOthersOut(t *testing.T) {
	eachHolding(t, func(t *testing.T, w *testbed.VirtualKind, lock *testbed.Trial, hold func(func(context.Context))) {
		var background context.Context
		var end func()
		hold(func(ctx context.Context) {
			background = context.WithoutCancel(ctx)
			end = job(t, background, lock)
			testbed.Elsewhere(func() { assert.True(t, lock.IsHeld(background)) })
		})
		if lock.Rival == lock.Locker { // a reader joins
			assertExcluded(t, background, lock)
			assertExcluded(t, w.Ctx, lock)
		}
		assertExcluded(t, w.Caller(), lock.Rival)
		next := testbed.Waits(t, func() error { return lock.Rival.Do(background, func(context.Context) error { return nil }) })
		end()
		require.NoError(t, testbed.Soon(next))
	})
}

func TestWhatIsLockedWithAContextIsUnlockedWithItAlsoAfterItsHold(t *testing.T) {
	eachHolding(t, func(t *testing.T, w *testbed.VirtualKind, lock *testbed.Trial, hold func(func(context.Context))) {
		var background context.Context
		hold(func(ctx context.Context) {
			background = context.WithoutCancel(ctx)
			testbed.Elsewhere(func() { assert.NoError(t, lock.Lock(background)) })
		})
		assertExcluded(t, w.Caller(), lock.Rival)
		require.ErrorIs(t, lock.Unlock(w.Caller()), rlock.ErrNotHeld)
		err := lock.Unlock(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld, "it is not the goroutine's")
		if w.Kind.Name == "plain" {
			assert.ErrorContains(t, err, "by a call with the context of ")
		}
		testbed.Elsewhere(func() { assert.NoError(t, lock.Unlock(background)) })
		require.ErrorIs(t, lock.Unlock(background), rlock.ErrNotHeld)

		testbed.Elsewhere(func() {
			assert.NoError(t, lock.Lock(background))
			assert.True(t, lock.IsHeld(w.Ctx), "it is the goroutine's, as without the context")
			assert.NoError(t, lock.Unlock(w.Ctx))
			assert.NoError(t, lock.Lock(w.Ctx))
			assert.NoError(t, lock.Unlock(background))
		})
	})
}

// The holds of a part and of the whole are told apart from those of other parts.
func TestThePartsOfAWholeThatIsOverAreFree(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		a, b := p.NewLock("a"), p.NewLock("b")
		both := rlock.NewMultiLock(a, b)
		for _, c := range []struct{ held, wanted, rival *rlock.Lock }{{both, a, a}, {both, a, both}, {both, both, b}, {a, both, both}, {a, both, a}} {
			var background context.Context
			var inside func()
			require.NoError(t, c.held.Do(w.Ctx, func(ctx context.Context) error {
				background = context.WithoutCancel(ctx)
				inside = job(t, background, c.wanted)
				return nil
			}))
			assertExcluded(t, background, c.rival)
			assertExcluded(t, w.Ctx, c.rival)
			inside()
			end := job(t, background, c.wanted)
			assertExcluded(t, background, c.rival)
			assertExcluded(t, w.Ctx, c.rival)
			end()
		}
	})
}
