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
			require.NoError(t, lock.Lock(s.Ctx))
			require.NoError(t, lock.Unlock(s.Ctx))
		}
	})
}

// A context that ends, at every step of a blocking lock. Each test ends with no lock held
// without a holder.

func TestAContextThatHasEndedAlreadySendsNothing(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		ctx, cancel := context.WithCancel(w.Caller())
		cancel()
		before := p.Scripts()
		require.ErrorIs(t, lock.Lock(ctx), context.Canceled)
		_, err := lock.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, err = lock.TryLockFor(ctx, time.Minute, 0)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, before, p.Scripts())
	})
}

// The reply is held back; the caller leaves at once, with its context's error.
func TestAGrantToACallerThatLeftIsReleased(t *testing.T) {
	for name, stage := range map[string]network.Stage{"the request is held": network.Request, "the reply is held": network.Reply} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, other := w.NewClient(), w.NewClient()
				lock := p.NewLock(testbed.Key)
				me := w.Caller()
				require.NoError(t, lock.Lock(me)) // the script is known
				require.NoError(t, lock.Unlock(me))

				p.Net.Rule(testbed.Scripts(1, network.Hold, stage, "acquired"))
				ctx, cancel := context.WithCancel(w.Caller())
				result := testbed.Waits(t, func() error { return lock.Lock(ctx) })
				testbed.Within(t, 0, 0, func() {
					cancel()
					require.ErrorIs(t, <-result, context.Canceled)
				})
				time.Sleep(time.Second)
				p.Net.Heal()
				them := w.Caller()
				testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, other.NewLock(testbed.Key).Lock(them)) })
				require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
				time.Sleep(time.Minute)
				assert.Empty(t, w.Keys())
				assert.Empty(t, p.Mirrors(), "the lock is renewed")
			})
		})
	}
}

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

// Callers that come while another call opens the connection wait for it in rueidis, in a wait
// that ignores the context.
func TestACallerMayLeaveWhileAnotherConnects(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		p.Net.Rule(network.Silence)
		p.Net.Cut()
		connects := testbed.Waits(t, func() error { return p.NewLock("another").Lock(w.Caller()) })

		lock := p.NewLock(testbed.Key)
		ctx, cancel := context.WithCancel(w.Caller())
		leaves := testbed.Waits(t, func() error { return lock.Lock(ctx) })
		them := w.Caller()
		stays := testbed.Waits(t, func() error { return lock.Lock(them) })
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
			leaves := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(ctx) })
			require.NoError(t, p.NewLock("held").Unlock(me))
			require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
			cancel()
			p.Net.SetRoundTrip(0)
			time.Sleep(time.Second)
		}
	})
}
