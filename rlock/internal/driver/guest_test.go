package driver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A guest has the lock while a level of the hold that it is a guest of is open, whatever its life says: that ends a moment
// before the level or, at a loss, after it.
func TestAGuestNestsInTheHoldThatItIsAGuestOf(t *testing.T) {
	for _, permits := range []bool{false, true} {
		kind := PlainKind
		if permits {
			kind = SemaphoreKind
		}
		bubbleOf(t, kind, func(t *testing.T, f *fake) {
			f.most = 1
			l := f.join(nil).lock()
			o, life, other := terms.NewOwner(), new(terms.Life), new(terms.Life)
			guest := terms.Owner{ID: o.ID, Guest: true}
			call := func(within *terms.Life) error {
				return l.Take(t.Context(), Request{Owner: guest, Within: within})
			}

			require.ErrorIs(t, call(life), terms.ErrOutlived)
			h, err := l.Hold(t.Context(), t.Context(), Request{Owner: o, Life: life, Wait: terms.Forever})
			require.NoError(t, err)
			require.NoError(t, l.Take(t.Context(), Request{Owner: o}))
			require.NoError(t, call(life))
			require.ErrorIs(t, call(other), terms.ErrOutlived)

			sent := f.count(core.Acquire)
			require.NoError(t, h.Release(t.Context()))
			assert.True(t, life.IsOver())
			require.ErrorIs(t, call(life), terms.ErrOutlived, "levels of the owner are open, and its guest's, but not the hold's")
			assert.Equal(t, 1, l.Depth(o))
			require.NoError(t, l.Unlock(t.Context(), o))
			require.ErrorIs(t, l.Unlock(t.Context(), o), terms.ErrNotHeld)
			assert.Zero(t, l.Depth(o))
			require.ErrorIs(t, l.Take(t.Context(), Request{Owner: o}), terms.ErrNotAcquired, "it does not nest beside a guest")
			assert.Equal(t, sent, f.count(core.Acquire), "no command")
			require.NoError(t, l.Unlock(t.Context(), guest))
			require.ErrorIs(t, l.Unlock(t.Context(), guest), terms.ErrNotHeld)
			f.isClean()
		})
	}
}

// A whole may lack a part, so that guests of it leave it to their whole whether they may have one.
func TestAPartForAGuestIsTakenInAnyCase(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		guest := terms.Owner{ID: terms.NewOwner().ID, Guest: true}
		whole := &terms.Whole{}
		h, err := l.Hold(t.Context(), t.Context(), Request{Owner: guest, Within: new(terms.Life), Life: new(terms.Life), Whole: whole})
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		f.isClean()
	})
}
