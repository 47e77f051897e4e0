package calls_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// New with a context that ends.

func TestNewContextReturnsWhenItsContextEnds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		silent := network.New(w.Dial)
		silent.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.Ctx, 100*time.Millisecond)
		defer cancel()
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		open := network.New(w.Dial)
		client, err := rlock.NewContext(w.Ctx, rlock.Config{Logger: testbed.Quiet, Redis: rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: open.Dial,
		}})
		require.NoError(t, err)
		require.NoError(t, client.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing))
		require.NoError(t, client.Close())
		open.Close()
		_, err = rlock.NewContext(w.Ctx, rlock.Config{})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	})
}

// Callers that come while another call opens the connection wait for it in rueidis, in a wait
// that ignores the context.
func TestACallerMayLeaveWhileAnotherConnects(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		p.Net.Rule(network.Silence)
		p.Net.Cut()
		connects := testbed.Start(func() error { return p.NewLock("another").Lock(w.Caller()) })
		require.True(t, testbed.Pending(connects))

		lock := p.NewLock(testbed.Key)
		ctx, cancel := context.WithCancel(w.Caller())
		leaves := testbed.Start(func() error { return lock.Lock(ctx) })
		require.True(t, testbed.Pending(leaves))
		them := w.Caller()
		stays := testbed.Start(func() error { return lock.Lock(them) })
		require.True(t, testbed.Pending(stays))
		testbed.Within(t, 0, 0, func() {
			cancel()
			require.ErrorIs(t, <-leaves, context.Canceled)
		})
		p.Net.Heal()
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		for range 20 {
			require.NoError(t, p.NewLock("held").Lock(me))
			p.Net.SetRoundTrip(20 * time.Millisecond)
			p.Net.Cut()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(w.Caller(), 10*time.Millisecond)
			leaves := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(ctx) })
			require.True(t, testbed.Pending(leaves))
			require.NoError(t, p.NewLock("held").Unlock(me))
			require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
			cancel()
			p.Net.SetRoundTrip(0)
			time.Sleep(time.Second)
		}
	})
}
