package insight_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHoldThatLastsTooLongIsLoggedOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		const said = "rlock: a lock is held for a long time"
		lock, me, them := p.NewLock(testbed.Key), w.Caller(), w.Caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(3900 * time.Millisecond)
		assert.Zero(t, p.Logged(said))
		time.Sleep(200 * time.Millisecond)
		assert.Equal(t, 1, p.Logged(said), "the hold is logged in time, and not only at the next renewal")
		assert.Equal(t, 1, p.Logged("lock=orders:42 kind=plain owner="))
		assert.Equal(t, 1, p.Logged("longwaits_test.go"))

		// The next holder, by a hand-off in the same tenure, has its own time.
		theirs := testbed.Start(func() error { return lock.Lock(them) })
		synctest.Wait()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		time.Sleep(4100 * time.Millisecond)
		assert.Equal(t, 2, p.Logged(said))
	})
}

func TestAWaitThatLastsTooLongIsLoggedOnceWithTheHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const said = "rlock: a call waits for a lock for a long time"
		long := func(c *rlock.Config) { c.LongWait = 7 * time.Second }
		p, other := w.NewClient(withSites, long), w.NewClient()
		lock, owner := p.NewLock(testbed.Key), rlock.NewOwner()
		them := rlock.WithOwner(w.Ctx, owner)

		require.NoError(t, other.NewLock(testbed.Key).Lock(them))
		mine := testbed.Start(func() error { _, err := takenHere(w.Ctx, lock); return err })
		synctest.Wait()
		time.Sleep(6900 * time.Millisecond)
		assert.Zero(t, p.Logged(said))
		time.Sleep(101 * time.Millisecond)
		assert.Equal(t, 1, p.Logged(said))
		assert.Equal(t, 1, p.Logged("holder="+other.ID()))
		assert.Equal(t, 1, p.Logged(":"+fmt.Sprint(owner)+" "))
		assert.Equal(t, 1, p.Logged("takenHere"))
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		require.NoError(t, <-mine)
		assert.Equal(t, 1, p.Logged(said))

		// The site of a holder of the same client is known.
		require.False(t, testbed.TriesFor(t, them, lock, 8*time.Second))
		assert.Equal(t, 2, p.Logged(said))
		assert.Equal(t, 1, p.Logged("holder="+p.ID()))
		assert.Equal(t, 2, p.Logged("takenHere"))

		whole := rlock.NewMultiLock(p.NewLock("another"), lock)
		require.False(t, testbed.TriesFor(t, them, whole, 8*time.Second))
		assert.Equal(t, 3, p.Logged(said), "the whole is logged, and not its part")
		assert.Equal(t, 1, p.Logged("lock=another,orders:42 kind=multi"))
	})
}

func TestBy30SecondsAWaitIsLoggedWithItsSiteUnlessTheConfigSaysOtherwise(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const said = "rlock: a call waits for a lock for a long time"
		holder, p, silent := w.NewClient(), w.NewClient(), w.NewClient(func(c *rlock.Config) { c.LongWait = -1 })
		require.NoError(t, holder.NewLock(testbed.Key).Lock(w.Ctx))
		ctx, cancel := context.WithCancel(w.Ctx)
		var waits []<-chan error
		for _, c := range []*testbed.Client{p, silent} {
			waits = append(waits, testbed.Start(func() error { _, err := takenHere(ctx, c.NewLock(testbed.Key)); return err }))
		}
		time.Sleep(29 * time.Second)
		assert.Zero(t, p.Logged(said))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Logged(said))
		assert.Equal(t, 1, p.Logged("takenHere"), "the site is known without RecordSites")
		assert.Zero(t, silent.Logged(said))
		cancel()
		for _, result := range waits {
			require.ErrorIs(t, <-result, context.Canceled)
		}
		require.NoError(t, holder.NewLock(testbed.Key).Unlock(w.Ctx))
	})
}

func TestTheLogSaysThatALockNeverExpires(t *testing.T) {
	for ttl, lines := range map[time.Duration]int{0: 1, time.Hour: 0} {
		t.Run(ttl.String(), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient()
				w.HSet(testbed.Key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
				if ttl > 0 {
					w.SetTTL(testbed.Key, ttl)
				}
				mine := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(w.Caller()) })
				time.Sleep(time.Minute)
				assert.Equal(t, 1, p.Logged("rlock: a call waits for a lock for a long time"))
				assert.Equal(t, lines, p.Logged(`expires="never: `))
				w.Del(testbed.Key)
				require.NoError(t, <-mine)
			})
		})
	}
}

// Holds whose handle the program has dropped.

const dropped = "rlock: the program has dropped a Hold without releasing it"

// drops acquires a lock, and drops the handle. It returns the context of the hold, which work may still use.
func drops(t *testing.T, w *testbed.World, lock *rlock.Lock) context.Context {
	t.Helper()
	h := testbed.Take(t, w.Ctx, lock)
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
		assert.Equal(t, 1, p.Logged("longwaits_test.go"), "where it was taken")
		require.NoError(t, ctx.Err(), "it is held on")
		require.NoError(t, kept.Release(w.Ctx))
	})
}

type requestKey struct{}

// A value of the caller's context may refer to the hold, as that of a request does which keeps it in a field: that is no reason
// to keep it in memory once it has ended, in whichever way.
func TestAHoldThatHasEndedIsCollectedThoughItsContextRefersToIt(t *testing.T) {
	for what, end := range map[string]func(*rlock.Hold, context.Context) error{
		"Release": (*rlock.Hold).Release,
		"Pass":    func(h *rlock.Hold, ctx context.Context) error { return testbed.ErrorOf(h.Pass(ctx, time.Minute)) },
		"ReleaseWith": func(h *rlock.Hold, ctx context.Context) error {
			return testbed.ErrorOf(h.ReleaseWith(ctx, "return 1", nil, nil))
		},
	} {
		t.Run(what, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
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
		})
	}
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
