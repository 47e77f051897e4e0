package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// holds takes the lock with a handle.
func holds(t *testing.T, l *Lock) Handle {
	t.Helper()
	h, err := l.Hold(t.Context(), t.Context(), request(terms.NewHandleOwner()))
	require.NoError(t, err)
	return h
}

// The write of a hold, in each fate: what the caller learns, and that the hold goes on. The next caller of the process never
// begins in its tenure.
func TestTheFateOfAGuardedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fate fate
		err  error
	}{
		"executed":               {passes, nil},
		"not executed":           {lost, terms.ErrUnconfirmed},
		"no answer":              {unheard, terms.ErrUnconfirmed},
		"the carrier panics":     {panicking, terms.ErrUnconfirmed},
		"held until the end":     {held, context.DeadlineExceeded},
		"its answer is too late": {late, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				f.fate = func(_ uint32, cmd *core.Command) fate {
					if cmd.Op == core.Write {
						return c.fate
					}
					return passes
				}
				l := f.join(nil).lock()
				h := holds(t, l)
				o, next := takes(t.Context(), l)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := h.Write(ctx, "return 1", nil, nil)
				require.ErrorIs(t, err, c.err)
				require.NoError(t, h.Err(), "the hold goes on")
				require.NoError(t, h.Release(t.Context()))
				require.NoError(t, <-next)
				assert.Equal(t, 1, f.count(core.Leave), "it was not handed off")
				require.NoError(t, l.Unlock(t.Context(), o))
				_, err = h.Write(t.Context(), "return 1", nil, nil)
				require.ErrorIs(t, err, terms.ErrFenced)
				assert.Equal(t, 1, f.count(core.Write), "one that is over sends nothing")
				f.isClean()
			})
		})
	}
}

// A write that is executed after its hold finds another tenure, also where the caller has left and the lock was released.
func TestALateGuardedWriteFindsAnotherTenure(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write {
				return held
			}
			return passes
		}
		l := f.join(nil).lock()
		h := holds(t, l)
		result := make(chan error, 1)
		go func() {
			_, err := h.Write(t.Context(), "return 1", nil, nil)
			result <- err
		}()
		synctest.Wait()
		require.NoError(t, h.Release(t.Context()))
		later := holds(t, l)
		f.deliver(-1)
		err := <-result
		require.ErrorIs(t, err, terms.ErrFenced)
		require.ErrorIs(t, err, terms.ErrNotHeld, "it was released")
		require.NoError(t, later.Err())
		require.NoError(t, later.Release(t.Context()))
		f.isClean()
	})
}

// A write that is executed after its lock was passed on is refused, so that nothing waits for its answer.
func TestALateGuardedWriteDoesNotFindALockThatWasPassedOn(t *testing.T) {
	eachPassableKind(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, here.lock())
		_, err := h.Write(t.Context(), "return 1", nil, nil)
		require.NoError(t, err)
		f.onOp(core.Write, held)
		result := make(chan error, 1)
		go func() {
			_, err := h.Write(t.Context(), "return 1", nil, nil)
			result <- err
		}()
		synctest.Wait()
		text, err := h.Pass(t.Context(), time.Minute)
		require.NoError(t, err)
		f.deliver(-1)
		require.ErrorIs(t, <-result, terms.ErrFenced)
		pass, err := ParsePass(text)
		require.NoError(t, err)
		resumed, err := there.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
		require.NoError(t, err)
		_, err = resumed.Write(t.Context(), "return 1", nil, nil)
		require.NoError(t, err)
		require.NoError(t, resumed.Release(t.Context()))
	})
}

// Where a command must not be left behind it is carried on, and keeps its slot, when its caller has left.
func TestAGuardedWriteHasItsSlotUntilItsAnswer(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		w := f.clients[0]
		w.keeps = true
		h := holds(t, l)
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write {
				return held
			}
			return passes
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := h.Write(ctx, "return 1", nil, nil)
		require.ErrorIs(t, err, terms.ErrUnconfirmed)
		synctest.Wait()
		assert.EqualValues(t, 1, w.all.Asks.InFlight())
		f.deliver(-1)
		synctest.Wait()
		assert.Zero(t, w.all.Asks.InFlight())
		require.NoError(t, h.Release(t.Context()))
		f.isClean()
	})
}

func TestAGuardedWriteThatIsRefusedEndsTheHoldAtOnce(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		h := holds(t, l)
		f.mu.Lock()
		f.server.Holders = nil
		f.mu.Unlock()
		_, err := h.Write(t.Context(), "return 1", nil, nil)
		require.ErrorIs(t, err, terms.ErrFenced)
		require.ErrorIs(t, err, terms.ErrLost)
		require.ErrorIs(t, context.Cause(h.Context()), terms.ErrLost)
		require.ErrorIs(t, h.Release(t.Context()), terms.ErrLost)
		f.isClean()
	})
}

// While readers go on another tenure may come below them: the write is sent again with that.
func TestAGuardedWriteOfAReaderFollowsItsTenure(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		stop := true
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write && stop {
				stop = false
				return held
			}
			return passes
		}
		c := f.join(nil)
		readers := c.lock().ForReaders()
		l := &readers
		left, stays := holds(t, l), holds(t, l)
		result := make(chan error, 1)
		go func() {
			_, err := stays.Write(t.Context(), "return 1", nil, nil)
			result <- err
		}()
		synctest.Wait()
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write {
				return lost
			}
			return passes
		}
		_, err := left.Write(t.Context(), "return 1", nil, nil)
		require.ErrorIs(t, err, terms.ErrUnconfirmed)
		f.fate = nil
		require.NoError(t, left.Release(t.Context()))
		joins := holds(t, l) // by a ticket, whose tenure takes the levels over
		time.Sleep(time.Second)
		f.deliver(-1)
		require.NoError(t, <-result)
		assert.Equal(t, 3, f.count(core.Write))
		require.NoError(t, joins.Release(t.Context()))
		require.NoError(t, stays.Release(t.Context()))
		f.isClean()
	})
}
