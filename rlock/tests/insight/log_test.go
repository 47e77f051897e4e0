package insight_test

import (
	"context"
	"fmt"
	"log/slog"
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

// A value of the caller's context may refer to the hold, as that of a request does which keeps it
// in a field: that is no reason to keep it in memory once it has ended, in whichever way.
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

// A slowHandler takes its time for each record, and for each call of Enabled.
type slowHandler struct {
	slog.Handler
	pause   func()
	records []slog.Record // read at the end of the test, when the client is closed
}

func (h *slowHandler) Enabled(context.Context, slog.Level) bool {
	h.pause()
	return true
}

func (h *slowHandler) Handle(_ context.Context, r slog.Record) error {
	h.pause()
	h.records = append(h.records, r)
	return nil
}

// of returns the values of the attribute, in the order of the records that have it.
func (h *slowHandler) of(attribute string) (values []string) {
	for _, r := range h.records {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == attribute {
				values = append(values, a.Value.String())
			}
			return true
		})
	}
	return values
}

func withLogger(h slog.Handler) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Logger = slog.New(h) }
}

// losesOnlyWhatIsGone has a client, whose logger is slow, hold ten locks, and deletes five of
// them. The others stay held, and another lock is granted at once.
func losesOnlyWhatIsGone(w *testbed.World, p *testbed.Client) {
	w.T.Helper()
	var holds []*rlock.Hold
	for i := range 10 {
		h := testbed.Take(w.T, w.Ctx, p.NewLock(fmt.Sprint("lock ", i)))
		holds = append(holds, h)
	}
	for i := range 5 {
		w.Del(fmt.Sprint("lock ", i))
	}
	time.Sleep(time.Minute)
	for i, h := range holds {
		assert.Equal(w.T, i >= 5, h.Valid(), i)
	}
	them := w.Caller()
	testbed.Within(w.T, 0, 0, func() { require.NoError(w.T, p.NewLock("another").Lock(them)) })
}

func TestALoggerThatBlocksLosesNoOtherLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		log := &slowHandler{pause: func() { time.Sleep(20 * time.Minute) }}
		p := w.NewClient(testbed.WithLease(3*time.Second), withLogger(log))
		losesOnlyWhatIsGone(w, p)
		testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, p.Close()) })
		time.Sleep(40 * time.Minute)
	})
}

func TestALoggerMayCallTheClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var p *testbed.Client
		them := w.Caller()
		log := &slowHandler{pause: func() {
			if p.NewLock(testbed.Key).Lock(them) == nil {
				_ = p.NewLock(testbed.Key).Unlock(them)
			}
			_ = p.Close()
		}}
		p = w.NewClient(withLogger(log), testbed.WithLease(time.Second))
		me := w.Caller()
		require.NoError(t, p.NewLock("lost").Lock(me))
		w.Del("lost")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, p.NewLock(testbed.Key).Lock(me), rlock.ErrClosed)
		synctest.Wait()
		assert.Equal(t, []string{"lost"}, log.of("lock"))
	})
}

// The owner is a text, since many readers of JSON take numbers for floats.
func TestTheLogNamesTheOwnerThatLostTheLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		log := new(testbed.Journal)
		p := w.NewClient(withLogger(slog.NewJSONHandler(log, nil)))
		hold := testbed.Take(t, w.Caller(), p.NewLock(testbed.Key))
		owner := p.Held()[0].Owner
		w.Del(testbed.Key)
		<-hold.Context().Done()
		synctest.Wait() // until the loss is logged
		assert.Equal(t, 1, log.Count(fmt.Sprintf(`,"owner":"%d",`, owner)))
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}

// The panic of the handler is on the standard error.
func TestALoggerThatPanicsEndsNothing(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		calls := 0
		p := w.NewClient(withLogger(panics{&calls}))
		for i := range 2 {
			me := w.Caller()
			lock := p.NewLock(fmt.Sprint(i))
			require.NoError(t, lock.Lock(me))
			w.Del(fmt.Sprint(i))
			time.Sleep(time.Minute)
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		}
		require.NoError(t, p.Close())
		assert.GreaterOrEqual(t, calls, 2, "it is called again")
	})
}

type panics struct{ calls *int }

func (p panics) Enabled(context.Context, slog.Level) bool { return true }

func (p panics) Handle(context.Context, slog.Record) error { *p.calls++; panic("boom") }

func (p panics) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p panics) WithGroup(string) slog.Handler { return p }

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

// Only the goroutine that has locked can unlock, so an Acquire by it waits for itself.
func TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		lock := p.NewFairLock(testbed.Key)
		require.NoError(t, lockedHere(w.Ctx, lock))
		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))), rlock.ErrNotAcquired)
		assert.Equal(t, 1, p.Logged(ownSaid))
		assert.Equal(t, 1, p.Logged("TestAcquireAfterLockInOneGoroutineIsLoggedAtOnce"), "the site of the call")
		assert.Equal(t, 1, p.Logged("lockedHere"), "the site of the holder")

		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(time.Minute))), rlock.ErrNotAcquired)
		elsewhere := testbed.Start(func() error {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))
			return err
		})
		require.ErrorIs(t, <-elsewhere, rlock.ErrNotAcquired)
		assert.Equal(t, 2, p.Logged(ownSaid), "once for each call, and not for another goroutine's")
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}

// Such a wait is a bug, so its place is looked for although sites are not recorded.
func TestTheSiteOfAWaitForItselfIsAlwaysLogged(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(w.Ctx))
		require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, rlock.WithWait(10*time.Millisecond))), rlock.ErrNotAcquired)
		assert.Equal(t, 1, p.Logged(ownSaid))
		assert.Equal(t, 1, p.Logged("TestTheSiteOfAWaitForItselfIsAlwaysLogged"))
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}

func lockedHere(ctx context.Context, lock *rlock.Lock) error { return lock.Lock(ctx) }
