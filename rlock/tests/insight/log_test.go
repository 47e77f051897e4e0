package insight_test

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Holds whose handle the program has dropped.

const dropped = "rlock: the program has dropped a Hold without releasing it"

// drops acquires a lock, and drops the handle. It returns the context of the hold, which work may
// still use.
func drops(t *testing.T, w *testbed.World, lock *rlock.Lock) context.Context {
	t.Helper()
	h := testbed.Take(t, w.Ctx, lock)
	return h.Context()
}

// collected collects the garbage until the condition is met: cleanups run in a goroutine of the
// runtime.
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
		func() { // no message is due for these
			h := testbed.Take(t, w.Ctx, p.NewLock("released"))
			require.NoError(t, h.Release(w.Ctx))
			h = testbed.Take(t, w.Ctx, p.NewLock("passed"))
			require.NoError(t, testbed.ErrorOf(h.Pass(w.Ctx, time.Minute)))
			testbed.Take(t, w.Ctx, p.NewLock("lost"), rlock.WithLease(time.Second))
		}()
		kept := testbed.Take(t, w.Ctx, p.NewLock("kept"))
		time.Sleep(time.Second)
		collected(w, func() bool { return p.Logged(dropped) > 0 }, "it is logged")
		runtime.GC()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 1, p.Logged(dropped))
		assert.Equal(t, 1, p.Logged("log_test.go"), "where it was taken")
		require.NoError(t, ctx.Err(), "it is held on")
		require.NoError(t, kept.Release(w.Ctx))
	})
}

type requestKey struct{}

// A value of the caller's context may refer to the hold, as a request does that keeps the hold in a
// field. Such a value does not keep the hold in memory once it has ended, in whichever way.
func TestAHoldThatHasEndedIsCollectedThoughItsContextRefersToIt(t *testing.T) {
	testbed.EachBubble(t, map[string]func(*rlock.Hold, context.Context) error{
		"Release": (*rlock.Hold).Release,
		"Pass":    func(h *rlock.Hold, ctx context.Context) error { return testbed.ErrorOf(h.Pass(ctx, time.Minute)) },
		"ReleaseWith": func(h *rlock.Hold, ctx context.Context) error {
			return testbed.ErrorOf(h.ReleaseWith(ctx, "return 1", nil, nil))
		},
	}, func(t *testing.T, w *testbed.World, end func(*rlock.Hold, context.Context) error) {
		p := w.NewClient()
		hold := func() weak.Pointer[rlock.Hold] {
			request := new(*rlock.Hold)
			ctx := context.WithValue(w.Ctx, requestKey{}, request)
			*request = testbed.Take(t, ctx, p.NewLock(testbed.Key))
			require.NoError(t, end(*request, ctx))
			return weak.Make(*request)
		}()
		collected(w, func() bool { return hold.Value() == nil }, "it is collected")
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

const ownSaid = "rlock: a call waits for a lock that its own goroutine holds"

// A goroutine that holds a whole by a handle waits for ever for a part.
func TestAWaitForAPartOfAHandleOfTheSameGoroutineIsLogged(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.False(t, testbed.TriesFor(t, w.Ctx, p.NewLock("b"), 3*time.Second))
		assert.Equal(t, 1, p.Logged(ownSaid))
		require.NoError(t, hold.Release(w.Ctx))
	})
}

// Only the goroutine that has locked can unlock, so an Acquire by it waits for itself. Such a wait is
// a bug, so its place is looked for although sites are not recorded.
func TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewFairLock(testbed.Key)
		require.NoError(t, lock.Lock(w.Ctx))
		waits := func(wait time.Duration) {
			t.Helper()
			require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(wait))), rlock.ErrNotAcquired)
		}
		waits(10 * time.Millisecond)
		assert.Equal(t, 1, p.Logged(ownSaid))
		assert.Equal(t, 1, p.Logged("TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce"), "the site of the call")
		waits(time.Minute)
		testbed.Elsewhere(func() { waits(10 * time.Millisecond) })
		assert.Equal(t, 2, p.Logged(ownSaid), "once for each call, and not for another goroutine's")
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}
