package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// In a Cluster rueidis sends each command over any of its connections to a node, so that a
// release may overtake its acquire.
func TestInAClusterAnAcquireThatArrivesAfterItsReleaseIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(func(c *rlock.Config) {
			c.Redis.ForceSingleClient = false
			c.Redis.PipelineMultiplex = 3
		})
		for i := range 20 {
			lock := p.NewLock(fmt.Sprint(i))
			require.NoError(t, lock.Do(w.caller(), nothing)) // the script is known
			p.net.Rule(scripts(1, network.Hold, network.Request, "acquired"))
			ctx, cancel := context.WithCancel(w.caller())
			result := start(func() error { return lock.Lock(ctx) })
			require.True(t, pending(result))
			p.net.Rule(nil)
			cancel()
			synctest.Wait()
			p.net.Deliver()
			require.ErrorIs(t, <-result, context.Canceled)
			time.Sleep(time.Second)
			assert.Empty(t, w.Keys())
		}
		require.NoError(t, p.Close())
		time.Sleep(time.Minute) // rueidis refreshes the Cluster's nodes once more, though it was closed
	})
}
