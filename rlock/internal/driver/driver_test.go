package driver

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bubble runs a test in virtual time, with Redis and the network of its clients.
func bubble(t *testing.T, run func(t *testing.T, f *fake)) {
	bubbleOf(t, FairKind, run)
}

func bubbleOf(t *testing.T, kind KindID, run func(t *testing.T, f *fake)) {
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) { run(t, newFake(t, s, kind)) })
}

// later returns what becomes of a call, which goes on.
func later(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	synctest.Wait()
	return result
}

// takes takes the lock with a caller of its own.
func takes(ctx context.Context, l *NamedLock) (contract.Owner, <-chan error) {
	o, result := contract.NewOwner(), make(chan error, 1)
	go func() { result <- l.Take(ctx, request(o)) }()
	return o, result
}

// More calls than may be in flight wait for a slot, and hear of Close there.
func TestCloseIsHeardByCallsWithoutASlot(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		f.gives(held)
		var results []<-chan error
		for i := range 300 {
			l := NewLock(c, FairKind, key+string(rune('a'+i)))
			_, result := takes(context.Background(), &l)
			results = append(results, result)
		}
		synctest.Wait()
		began := time.Now()
		go func() { _ = c.Close() }()
		for _, result := range results {
			require.ErrorIs(t, <-result, wire.ErrClosed)
		}
		assert.Zero(t, time.Since(began))
		time.Sleep(10 * time.Second)
	})
}

// ops returns the commands of these sorts that were sent.
func (f *fake) ops(of ...core.Op) (sent []core.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sent {
		if op := f.sent[i].Op; slices.Contains(of, op) {
			sent = append(sent, op)
		}
	}
	return sent
}

// isClean asserts that nothing is left: in Redis, in the clients, and of the slots among the
// commands in flight.
func (f *fake) isClean() {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server.Expire(server.Time(time.Since(f.start)))
	assert.Empty(f.t, f.server.Holders)
	assert.Empty(f.t, f.server.Queue)
	for _, w := range f.clients {
		assert.Zero(f.t, w.all.Asks.Count(), "a slot is not given back")
		assert.Zero(f.t, w.all.Releases.Count(), "a slot is not given back")
		assert.Zero(f.t, w.client.live.Load(), "Close would wait, or not wait")
		for s := range w.client.allShards {
			s.underMutex(func() {
				for _, locks := range s.locks {
					assert.Empty(f.t, locks)
				}
				assert.Empty(f.t, s.pools)
				assert.Empty(f.t, s.mirrorWaits)
				assert.Zero(f.t, s.counts.Held)
				assert.Zero(f.t, s.counts.Waiting)
			})
		}
	}
}

// The machine has slept, and no timer has gone off yet.
func TestACallThatFindsALossIsRefusedForIt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		o, got := takes(t.Context(), c.lock())
		require.NoError(t, <-got)
		c.clock.ahead.Add(int64(time.Minute))
		require.ErrorIs(t, c.lock().Take(t.Context(), request(o)), contract.ErrLost)
		require.ErrorIs(t, c.lock().Unlock(t.Context(), o), contract.ErrLost)
	})
}

// The message that a call has the lock is sent after the mutex is given back. A call that finds out
// by itself waits for that, since its memory is used again: the next call would take the message
// for its own, and believe that it has the lock.
func TestALateWakeUpIsTakenByItsOwnCall(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		l := c.lock()
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		req := request(contract.NewOwner())
		req.Wait = time.Second
		waits := later(func() error { return l.Take(t.Context(), req) })

		one, now := c.enter(l.Name, core.OwnerID(o.ID))
		was, _, ok := one.Unlock(core.OwnerID(o.ID), core.Alone, nil, now)
		require.True(t, ok)
		s := one.shard
		s.counts.CountClosed(was.First)
		s.applyEffects()
		handsOff := s.deferred
		s.deferred = deferred{}
		s.unlock() // as exit does
		time.Sleep(2 * time.Second)
		select {
		case <-waits:
			t.Error("the call has returned, and its message comes yet")
		default:
		}
		c.runDeferred(&handsOff)
		require.NoError(t, <-waits)
		require.NoError(t, l.Unlock(t.Context(), req.Owner))
		f.isClean()
	})
}

// A process that is interrupted between its readings of the two clocks has not slept.
func TestAnInterruptionBetweenTheClocksEndsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := &f.join(nil).clock
		c.noteStep(-int64(50 * time.Millisecond)) // as at would, of such a reading
		now := c.now()
		assert.EqualValues(t, now.Time, now.Safe)

		c.noteStep(int64(time.Minute)) // the machine has slept
		now = c.now()
		assert.EqualValues(t, now.Time.After(core.Span(time.Minute)), now.Safe)
	})
}

// A goroutine that is delayed on its way to the mutex does not nest in a lease that has ended.
func TestTheClocksAreReadAfterTheMutexIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		o := contract.NewOwner()
		require.NoError(t, c.lock().Take(t.Context(), Request{Owner: o, AcquireOptions: contract.AcquireOptions{Wait: contract.Forever, Lease: time.Second}}))
		s := c.shardOf(c.lock().Name)
		s.lock()
		got := make(chan int, 1)
		go func() { got <- c.lock().Depth(o) }()
		runtime.Gosched()
		c.clock.ahead.Add(int64(990 * time.Millisecond)) // the machine sleeps meanwhile
		s.unlock()
		assert.Zero(t, <-got)
	})
}

// A stuck is a handler that takes a record when it is told to.
type stuck struct {
	slog.Handler
	goes chan struct{}
	took []string
}

func (h *stuck) Enabled(context.Context, slog.Level) bool { return true }

func (h *stuck) Handle(_ context.Context, r slog.Record) error {
	<-h.goes
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += fmt.Sprint(" ", a); return true })
	h.took = append(h.took, text)
	return nil
}

func TestASlowLoggerGetsAThousandMessagesInOrderAndTheNumberItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stuck{goes: make(chan struct{})}
		log, notices := newLogger(slog.New(h))
		log.Info("0")
		synctest.Wait() // the handler has it
		for i := 1; i <= maxMessages+7; i++ {
			log.Info(fmt.Sprint(i))
		}
		close(h.goes)
		notices.close(t.Context())
		for i, text := range h.took[:maxMessages+1] {
			assert.Equal(t, fmt.Sprint(i), text)
		}
		assert.Equal(t, []string{"rlock: the Logger was too slow: messages were dropped count=7"}, h.took[maxMessages+1:])
	})
}

// Messages of level Debug, of which LogSteps makes many, leave room for the others.
func TestASlowLoggerMissesMessagesOfLevelDebugFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &stuck{goes: make(chan struct{})}
		log, notices := newLogger(slog.New(h))
		log.Debug("0")
		synctest.Wait() // the handler has it
		for range maxMessages {
			log.Debug("a step")
		}
		log.Error("a loss")
		close(h.goes)
		notices.close(t.Context())
		assert.Len(t, h.took, 1+maxMessages/2+2)
		assert.Equal(t, []string{"a loss", "rlock: the Logger was too slow: messages were dropped count=500"}, h.took[1+maxMessages/2:])
	})
}

// Each change of a tenure's want or place is a line of the log, if that is asked for.
func TestWhatIsDecidedIsLoggedOnRequest(t *testing.T) {
	for _, logs := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fake) {
			var text strings.Builder
			leave := func(groups []string, a slog.Attr) slog.Attr {
				switch a.Key {
				case "want", "place", "wanted", "was", "lock":
					return a
				}
				return slog.Attr{}
			}
			c := f.join(func(c *Config) {
				c.LogSteps = logs
				c.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: leave}))
			})
			l, o := c.lock(), contract.Owner{ID: 7}
			require.NoError(t, l.Take(t.Context(), request(o)))
			require.NoError(t, l.Unlock(t.Context(), o))
			synctest.Wait()
			want := `lock=orders:42 want=Asked place=Out wanted=Gone was=Out
lock=orders:42 want=Asked place=Unsure wanted=Asked was=Out
lock=orders:42 want=Asked place=Owner wanted=Asked was=Unsure
lock=orders:42 want=Held place=Owner wanted=Asked was=Owner
lock=orders:42 want=Gone place=Owner wanted=Held was=Owner
lock=orders:42 want=Gone place=Out wanted=Gone was=Owner
`
			if !logs {
				want = ""
			}
			assert.Equal(t, want, text.String())
		})
	}
}

// A client may hold a hundred thousand locks: what each of them needs keeps to a size of Go's
// allocator.
func TestWhatAHeldLockNeedsHasSizesOfTheAllocator(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(core.Tenure{}), uintptr(288))
	assert.LessOrEqual(t, unsafe.Sizeof(lockState{}), uintptr(256))
	assert.LessOrEqual(t, unsafe.Sizeof(work{}), uintptr(192))
	assert.LessOrEqual(t, unsafe.Sizeof(Name{}), uintptr(96))
}

func init() { CheckRules(true) }

// Each that watches a lock hears of its trouble until it stops, and nothing is remembered then.
func TestTroubleIsToldToThoseThatWatch(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, told := f.join(nil), map[string]int{}
		watch := func(who, lock string) (stop func()) {
			return c.WatchTrouble(lock, func(error) { told[who]++ })
		}
		stops := []func(){watch("one", key), watch("two", key), watch("three", "other")}
		for _, stop := range stops {
			c.TellTrouble(key, time.Now(), wire.ErrNoAnswer)
			stop()
		}
		c.TellTrouble(key, time.Now(), wire.ErrNoAnswer)
		assert.Equal(t, map[string]int{"one": 1, "two": 2}, told)
		assert.Zero(t, c.troubles.count.Load())
		assert.Empty(t, c.troubles.of)
	})
}
