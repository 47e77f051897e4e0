package rlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// Callers that come while another call opens the connection wait for it in rueidis, in a wait
// that ignores the context.
func TestACallerMayLeaveWhileAnotherConnects(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		p.net.Rule(network.Silence)
		p.net.Cut()
		connects := start(func() error { return p.NewLock("another").Lock(w.caller()) })
		require.True(t, pending(connects))

		lock := p.NewLock(key)
		ctx, cancel := context.WithCancel(w.caller())
		leaves := start(func() error { return lock.Lock(ctx) })
		require.True(t, pending(leaves))
		them := w.caller()
		stays := start(func() error { return lock.Lock(them) })
		require.True(t, pending(stays))
		within(t, 0, 0, func() {
			cancel()
			require.ErrorIs(t, <-leaves, context.Canceled)
		})
		p.net.Heal()
		require.NoError(t, <-connects)
		require.NoError(t, <-stays)
		require.NoError(t, lock.Unlock(them))
		w.Del("another")
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

// Other callers wait for the connection that one caller's command opens.
func TestACallerThatLeavesWhileItConnectsFailsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		for range 20 {
			require.NoError(t, p.NewLock("held").Lock(me))
			p.net.SetRoundTrip(20 * time.Millisecond)
			p.net.Cut()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(w.caller(), 10*time.Millisecond)
			leaves := start(func() error { return p.NewLock(key).Lock(ctx) })
			require.True(t, pending(leaves))
			require.NoError(t, p.NewLock("held").Unlock(me))
			require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
			cancel()
			p.net.SetRoundTrip(0)
			time.Sleep(time.Second)
		}
	})
}
