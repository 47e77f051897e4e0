package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A release that carries a guarded write, in each fate: what the caller learns, that the write is sent once, and that the lock
// is released. The next caller of the process never has it by a hand-off, which would leave the write out.
func TestTheFateOfAReleaseWithAGuardedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fate fate
		err  error
		ran  int
	}{
		"executed":           {passes, nil, 1},
		"not executed":       {lost, terms.ErrUnconfirmed, 0},
		"no answer":          {unheard, terms.ErrUnconfirmed, 1},
		"refused":            {refused, terms.ErrUnconfirmed, 0},
		"the carrier panics": {panicking, terms.ErrUnconfirmed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				f.fate = func(_ uint32, cmd *core.Command) fate {
					if cmd.Carries {
						return c.fate
					}
					return passes
				}
				l := f.join(nil).lock()
				h := holds(t, l)
				o, next := takes(t.Context(), l)
				synctest.Wait()
				_, err := h.ReleaseWith(t.Context(), "return 1", nil, nil)
				require.ErrorIs(t, err, c.err)
				require.ErrorIs(t, h.Err(), terms.ErrNotHeld)
				require.NoError(t, <-next)
				f.mu.Lock()
				ran, carried := 0, 0
				for _, n := range f.wrote {
					ran += n
				}
				for i := range f.sent {
					if f.sent[i].Carries {
						carried++
					}
				}
				f.mu.Unlock()
				assert.Equal(t, c.ran, ran)
				assert.Equal(t, 1, carried, "one that has no answer is not sent again")
				require.NoError(t, l.Unlock(t.Context(), o))
				require.ErrorIs(t, h.Release(t.Context()), terms.ErrNotHeld)
				time.Sleep(time.Minute) // a release without an answer was repeated by then
				f.isClean()
			})
		})
	}
}

// One whose lock is gone writes nothing, whether the client knows that or not.
func TestAReleaseWithAGuardedWriteOfALostLock(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		h := holds(t, l)
		f.mu.Lock()
		f.server.Holders = nil
		f.mu.Unlock()
		for _, want := range []error{terms.ErrLost, terms.ErrNotHeld} { // the second time nothing is sent
			_, err := h.ReleaseWith(t.Context(), "return 1", nil, nil)
			require.ErrorIs(t, err, terms.ErrFenced)
			require.ErrorIs(t, err, want)
		}
		assert.Empty(t, f.wrote)
		assert.Equal(t, 1, f.count(core.Leave))
		f.isClean()
	})
}

// The release of a nested hold has no command: the write is one, and the lock stays.
func TestAReleaseWithAGuardedWriteOfANestedHold(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		owner := terms.NewHandleOwner()
		outer, err := l.Hold(t.Context(), t.Context(), request(owner))
		require.NoError(t, err)
		inner, err := l.Hold(t.Context(), t.Context(), request(owner))
		require.NoError(t, err)
		_, err = inner.ReleaseWith(t.Context(), "return 1", nil, nil)
		require.NoError(t, err)
		require.ErrorIs(t, inner.Err(), terms.ErrNotHeld)
		require.NoError(t, outer.Err())
		assert.Equal(t, 1, f.count(core.Write))
		assert.Zero(t, f.count(core.Leave))
		require.NoError(t, outer.Release(t.Context()))
		f.isClean()
	})
}
