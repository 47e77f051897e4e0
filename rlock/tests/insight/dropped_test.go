package insight_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Holds whose handle the program has dropped.

const dropped = "rlock: the program has dropped a Hold without releasing it"

// drops acquires a lock, and drops the handle. It returns the context of the hold, which work may still use.
func drops(t *testing.T, w *testbed.World, lock *rlock.Lock) context.Context {
	t.Helper()
	h, err := lock.Acquire(w.Ctx)
	require.NoError(t, err)
	return h.Context()
}

// collected collects the garbage until the condition is met: cleanups run in a goroutine of the runtime.
func collected(w *testbed.World, met func() bool, message string) {
	w.Eventually(func() bool {
		runtime.GC()
		time.Sleep(time.Second)
		return met()
	}, message)
}

func TestAHoldThatIsDroppedIsLoggedOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		ctx := drops(t, w, p.NewLock(testbed.Key))
		kept, err := p.NewLock("kept").Acquire(w.Ctx)
		require.NoError(t, err)
		collected(w, func() bool { return p.Logged(dropped) > 0 }, "it is logged")
		runtime.GC()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 1, p.Logged(dropped))
		assert.Equal(t, 1, p.Logged("dropped_test.go"), "where it was taken")
		require.NoError(t, ctx.Err(), "it is held on")
		require.NoError(t, kept.Release(w.Ctx))
	})
}

func TestAHoldThatIsDroppedIsReleasedIfTheConfigSaysSo(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.ReleaseDropped, c.LongHold = true, -1 })
		ctx := drops(t, w, p.NewLock(testbed.Key))
		over := drops(t, w, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		collected(w, func() bool { return ctx.Err() != nil && p.Logged(dropped) == 2 }, "both are logged, and the first is released")
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrNotHeld)
		require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing))
		require.NoError(t, over.Err(), "a lock over several is only logged")
		assert.Equal(t, 1, p.Logged("lock=a,b kind=multi"))
	})
}

// A hold that was released, lost or passed on is nobody's to release.
func TestAHoldThatIsOverIsNotDropped(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		func() {
			h, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
			require.NoError(t, err)
			require.NoError(t, h.Release(w.Ctx))
			h, err = p.NewLock("passed").Acquire(w.Ctx)
			require.NoError(t, err)
			_, err = h.Pass(w.Ctx, time.Minute)
			require.NoError(t, err)
			_, err = p.NewLock("leased").Acquire(w.Ctx, rlock.WithLease(time.Second))
			require.NoError(t, err)
		}()
		time.Sleep(time.Minute)
		for range 5 {
			runtime.GC()
			time.Sleep(time.Minute)
		}
		assert.Zero(t, p.Logged(dropped))
	})
}
