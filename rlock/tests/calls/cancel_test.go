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

func TestACancelledLockReturnsTheContextsErrorAndHoldsNothing(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ended, cancel := context.WithCancel(s.Ctx)
		cancel()
		assert.ErrorIs(t, here.Lock(ended), context.Canceled, "a free lock must not be taken with a context that has ended")

		require.NoError(t, here.Lock(s.Ctx))
		for what, lock := range map[string]testbed.Locker{"behind a goroutine": here.Rival, "behind a client": there.Rival} {
			ctx, cancel := context.WithCancel(s.Ctx)
			ctx, queued := testbed.Queueing(ctx)
			waiter := testbed.Start(func() error { return lock.Lock(ctx) })
			<-queued
			cancel()
			assert.ErrorIs(t, s.Await(waiter), context.Canceled, what)

			ctx, cancel = context.WithTimeout(s.Ctx, 10*time.Millisecond)
			testbed.Elsewhere(func() { assert.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded, what) })
			cancel()
		}
		assert.True(t, here.IsHeld(s.Ctx))
		require.NoError(t, here.Unlock(s.Ctx))
		for _, lock := range []testbed.Locker{here.Rival, there.Rival} {
			require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
		}
	})
}

// A context that ends, at every step of a blocking lock. Each test ends with no lock held
// without a holder.

func TestAWaiterOfARemoteHolderLeavesAtOnceAndLeavesNothing(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, me := w.NewProcess(), w.NewProcess(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(me))
		lock := p.NewLock(testbed.Key)
		for _, after := range []time.Duration{0, time.Millisecond, time.Second, 7 * time.Second} {
			ctx, cancel := context.WithCancel(w.Caller())
			result := testbed.Start(func() error { return lock.Rival.Lock(ctx) })
			time.Sleep(after)
			testbed.Within(t, 0, 0, func() {
				cancel()
				require.ErrorIs(t, <-result, context.Canceled)
			})
		}
		time.Sleep(10 * time.Second)
		for _, world := range w.Worlds {
			assert.Empty(t, testbed.LockChannels(world.Miniredis), "the subscription lingers for 5 s")
		}
		require.NoError(t, other.NewLock(testbed.Key).Unlock(me))
		time.Sleep(time.Minute)
		assert.Empty(t, w.KeysLeft())
	})
}

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
			leaves := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(ctx) })
			require.NoError(t, p.NewLock("held").Unlock(me))
			require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
			cancel()
			p.Net.SetRoundTrip(0)
			time.Sleep(time.Second)
		}
	})
}

func TestAnAttemptAfterACancelledLockGetsTheFreeLock(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		if w.Kind.Servers > 0 || w.Kind.Keys != nil {
			t.Skip("its parts are released in the background, and held until then")
		}
		if w.Kind.Many {
			t.Skip("a single attempt does not wait for the release of a cancelled one")
		}
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(w.Ctx, testbed.Nothing)) // the scripts are known
		w.Settle()
		p.Networks(func(n *network.Network) { n.SetRoundTrip(roundTrip) })
		for after := time.Millisecond; after < 2*roundTrip; after += time.Millisecond {
			ctx, cancel := context.WithCancel(w.Caller())
			leaves := testbed.Start(func() error { return lock.Lock(ctx) })
			time.Sleep(after)
			cancel()
			if err := <-leaves; err == nil { // granted before it was cancelled
				require.NoError(t, lock.Unlock(ctx))
				continue
			}
			me := w.Caller()
			testbed.Within(t, roundTrip, 4*roundTrip, func() {
				require.True(t, testbed.Tries(t, me, lock), "cancelled after %v", after)
			})
			require.NoError(t, lock.Unlock(me))
			w.Settle()
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.KeysLeft())
	})
}
