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

func TestAGrantedCallWaitsUntilEarlierLossesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		told := make(chan struct{}) // the whole is told of the loss only after a while
		handle, err := c.lock().Hold(t.Context(), t.Context(), Request{
			Owner: terms.NewHandleOwner(), Wait: terms.Forever, Lease: time.Second,
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

// A release lets others in: the holder learns of the loss before, also if another goroutine than
// the keeper has noticed it.
func TestALostLockIsNotReleasedBeforeItsLossIsReported(t *testing.T) {
	for what, capped := range map[string]bool{"a lease": false, "a maximum": true} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake) {
				c := f.join(nil)
				reported := make(chan struct{})
				owner := terms.NewHandleOwner()
				h, err := c.lock().Hold(t.Context(), t.Context(), Request{
					Owner: owner, Wait: terms.Forever, Lease: 1003 * time.Millisecond, Capped: capped, // between two ticks of the keeper
					Whole: &terms.Whole{Name: "whole"}, Lost: func(error) { <-reported },
				})
				require.NoError(t, err)
				time.Sleep(time.Until(h.ValidUntil()))
				noticed := make(chan int)
				go func() { noticed <- c.lock().Depth(owner) }()
				synctest.Wait()
				time.Sleep(time.Minute)
				assert.Zero(t, f.count(core.Leave))
				close(reported)
				assert.Zero(t, <-noticed)
				time.Sleep(time.Second)
				assert.Positive(t, f.count(core.Leave))
			})
		})
	}
}
