package driver

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// Each rule of the driver (rules.go) is broken here, and found.

// breaks calls change with the mutex of the client's lock held, asserts that the rule is found
// broken then, and repairs the damage.
func breaks(t *testing.T, c *Client, rule string, change func(l *lock, now core.Now)) {
	t.Helper()
	l, now := c.enterIfAny(c.lock().Name, 0)
	require.NotNil(t, l)
	checkRules(l.shard)
	change(l, now)
	assert.Contains(t, found(l.shard), rule)
	for tenure := range l.Tenures {
		l.shard.polled(l, tenure)
	}
	for w := range l.Waiters {
		w.Tag.(*waiter).wake()
	}
	l.shard.exit(l)
}

// found returns which rule is found broken, "" for none.
func found(s *shard) (broken string) {
	defer func() { broken, _ = recover().(string) }()
	checkRules(s)
	return ""
}

// contended returns when one call holds the lock and another one of the same client waits
// for it.
func contended(t *testing.T, f *fake) (c *Client, holder client.Owner, waits <-chan error, leave context.CancelFunc) {
	c = f.join(nil)
	holder, got := takes(t.Context(), c.lock())
	require.NoError(t, <-got)
	ctx, leave := context.WithCancel(t.Context())
	_, waits = takes(ctx, c.lock())
	synctest.Wait()
	return c, holder, waits, leave
}

func TestAPollThatIsLostIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, _, leave := contended(t, f)
		breaks(t, c, "rule 6", func(l *lock, now core.Now) {
			for w := range l.Waiters {
				l.Cancel(w, core.Cancelled, now)
			}
			l.shard.core.Effects() // are lost: the keeper does not hear that the ticket is to leave
		})
		leave()
		time.Sleep(5 * time.Minute)
	})
}

func TestAnEffectThatIsLeftIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, _, leave := contended(t, f)
		defer leave()
		breaks(t, c, "rule 2", func(l *lock, now core.Now) { l.Doubt(now) })
	})
}

func TestACallThatSleepsTooLongIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, _, leave := contended(t, f)
		defer leave()
		breaks(t, c, "rule 1", func(l *lock, _ core.Now) {
			for w := range l.Waiters {
				w.Tag.(*waiter).wakesAt = core.Never
			}
		})
	})
}

func TestATenureWithoutATimerIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, _, leave := contended(t, f)
		defer leave()
		breaks(t, c, "rule 6", func(l *lock, _ core.Now) { l.Owner().Tag.(*work).alarm = 0 })
	})
}

func TestAGrantedCallWaitsUntilEarlierLossesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		told := make(chan struct{}) // the whole is told of the loss only after a while
		handle, err := c.lock().Hold(t.Context(), t.Context(), client.Request{
			Owner: client.NewHandleOwner(), Wait: client.Forever, Lease: time.Second,
			Whole: &terms.Whole{Name: "whole"}, Lost: func(error) { <-told },
		})
		require.NoError(t, err)
		_, waits := takes(t.Context(), c.lock())
		time.Sleep(10 * time.Second)
		assert.Error(t, handle.Err())
		select {
		case <-waits:
			t.Error("the next one has the lock, and the loss is not told")
		default:
		}
		close(told)
		require.NoError(t, <-waits)
	})
}

func TestACommandThatPanicsHasOneAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		panics := 3
		f.fate = func(uint32, *core.Command) fate {
			if panics--; panics >= 0 {
				return panicking
			}
			return passes
		}
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		require.NoError(t, l.Unlock(t.Context(), o))
		time.Sleep(time.Minute)
		f.isClean()
	})
}

// A goroutine that is delayed on its way to the mutex does not nest in a lease that has ended.
func TestTheClocksAreReadAfterTheMutexIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		o := client.NewOwner()
		require.NoError(t, c.lock().Take(t.Context(), client.Request{Owner: o, Wait: client.Forever, Lease: time.Second}))
		s := c.shardOf(c.lock().Name)
		s.mu.Lock()
		got := make(chan int, 1)
		go func() { got <- c.lock().Depth(o) }()
		runtime.Gosched()
		c.clock.ahead.Add(int64(990 * time.Millisecond)) // the machine sleeps meanwhile
		s.mu.Unlock()
		assert.Zero(t, <-got)
	})
}

// A spying context reports whether it is asked under a mutex of the client.
type spying struct {
	context.Context
	asked func()
}

func (c *spying) Err() error            { c.asked(); return c.Context.Err() }
func (c *spying) Done() <-chan struct{} { c.asked(); return c.Context.Done() }
func (c *spying) Value(key any) any     { c.asked(); return c.Context.Value(key) }

func TestNoCodeOfAUserRunsUnderTheMutex(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		s := c.shardOf(c.lock().Name)
		var asked atomic.Int32
		spy := func() context.Context {
			return &spying{t.Context(), func() {
				asked.Add(1)
				for range 10_000 { // another goroutine may have it for a moment
					if s.mu.TryLock() {
						s.mu.Unlock()
						return
					}
					runtime.Gosched()
				}
				stack := make([]byte, 1<<16)
				t.Errorf("a context is asked under the mutex\n%s", stack[:runtime.Stack(stack, false)])
			}}
		}
		ctx := spy()
		handle, err := c.lock().Hold(ctx, ctx, client.Request{Owner: client.NewHandleOwner(), Wait: client.Forever})
		require.NoError(t, err)
		waits := make(chan error, 1)
		go func() {
			other := spy()
			h, err := c.lock().Hold(other, other, client.Request{Owner: client.NewHandleOwner(), Wait: client.Forever, Lease: 2 * time.Second})
			if err == nil {
				<-h.Context().Done() // by its lease
			}
			waits <- err
		}()
		synctest.Wait()
		require.NoError(t, handle.Release(ctx))
		require.NoError(t, <-waits)
		assert.NotZero(t, asked.Load())
	})
}
