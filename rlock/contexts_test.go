package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// New and Close with a context that ends.

func TestNewContextReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		silent := network.New(w.Dial)
		silent.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			client, err := rlock.NewContext(ctx, rlock.Config{Redis: rueidis.ClientOption{
				InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: silent.Dial,
			}})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Nil(t, client)
		})
		silent.Close()
		time.Sleep(time.Minute)
	})
}

func TestNewContextReturnsTheClientOrTheErrorOfNew(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		open := network.New(w.Dial)
		client, err := rlock.NewContext(w.ctx, rlock.Config{Logger: quiet, Redis: rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: open.Dial,
		}})
		require.NoError(t, err)
		require.NoError(t, client.NewLock(key).Do(w.ctx, nothing))
		require.NoError(t, client.CloseContext(w.ctx))
		open.Close()
		_, err = rlock.NewContext(w.ctx, rlock.Config{})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	})
}

func TestLocksAreReleasedThoughTheContextOfCloseHasEnded(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"before": 0, "while the releases are in flight": 60 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				for i := range 20 {
					require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.ctx))
				}
				p.net.SetRoundTrip(100 * time.Millisecond)
				ctx, cancel := context.WithTimeout(w.ctx, timeout)
				defer cancel()
				within(t, timeout, timeout, func() { require.ErrorIs(t, p.CloseContext(ctx), rlock.ErrUnconfirmed) })
				time.Sleep(time.Second)
				assert.Empty(t, w.Keys())
			})
		})
	}
}

func TestCloseContextReturnsWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		p.net.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			err := p.CloseContext(ctx)
			require.ErrorIs(t, err, rlock.ErrUnconfirmed)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		require.ErrorIs(t, hold.Err(), rlock.ErrClosed)
		time.Sleep(time.Minute) // until the connections are closed
	})
}
