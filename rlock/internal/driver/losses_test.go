package driver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

func TestAGrantedCallWaitsUntilEarlierLossesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		told := make(chan struct{}) // the whole is told of the loss only after a while
		handle, err := c.lock().Hold(t.Context(), t.Context(), client.Request{
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
