package driver

import (
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A message that no ticket stands behind ends no hold: it costs a mirror.
func TestAForgedTakeoverEndsNoHold(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		h := holds(t, c.lock())
		one := f.server.Holders[0]
		text := c.textOf(one.ID, one.Owner, 0)
		for range 10 {
			c.hearClientMessage("t " + string(text) + " 0 " + string(text) + " " + key)
			time.Sleep(time.Second)
		}
		require.True(t, Valid(h))
		assert.Equal(t, 10, f.count(core.Mirror))
		for _, message := range []string{"t " + string(text), "t " + string(text) + " 5 " + key, "t " + string(text) + " x " + string(text) + " " + key, "t " + string(text) + " -1 " + string(text) + " " + key} {
			c.hearClientMessage(message)
		}
		time.Sleep(time.Second)
		assert.Equal(t, 10, f.count(core.Mirror))
		require.NoError(t, h.Release(t.Context()))
	})
}

// A hold without a grace hears in one answer that another owner waits, and that its time is over.
func TestAHoldThatIsTakenOverAtOnceIsToldThatItIsWanted(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		h := holds(t, f.join(nil).lock())
		require.False(t, isWanted(h))
		req := request(contract.NewHandleOwner())
		req.Takeover = time.Nanosecond
		next, err := f.join(nil).lock().Hold(t.Context(), t.Context(), req)
		require.NoError(t, err)
		assert.ErrorIs(t, h.Release(t.Context()), contract.ErrTakenOver)
		assert.True(t, isWanted(h))
		require.NoError(t, next.Release(t.Context()))
	})
}

// Permits are taken over from as many holders as have those that are missing.
func TestATakeoverTakesThePermitsThatAreMissing(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 5
		var all []Handle
		for range 4 {
			all = append(all, holds(t, f.join(nil).lock()))
		}
		next, result := make(chan Handle, 1), make(chan error, 1)
		go func() {
			req := request(contract.NewHandleOwner())
			req.Takeover, req.More = 10*time.Second, 2
			h, err := f.join(nil).lock().Hold(t.Context(), t.Context(), req)
			next <- h
			result <- err
		}()
		require.NoError(t, <-result)
		lost := 0
		for _, h := range all {
			if err := h.Err(); err != nil {
				assert.ErrorIs(t, err, contract.ErrTakenOver)
				lost++
			}
		}
		assert.Equal(t, 2, lost, "one of five was free, and three are asked for")
		require.NoError(t, (<-next).Release(t.Context()))
		for _, h := range all {
			if err := h.Release(t.Context()); !errors.Is(err, contract.ErrTakenOver) {
				require.NoError(t, err)
			}
		}
	})
}
