package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// New with a context that ends.

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
		require.NoError(t, client.Close())
		open.Close()
		_, err = rlock.NewContext(w.ctx, rlock.Config{})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	})
}
