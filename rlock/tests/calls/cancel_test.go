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

func TestAContextThatHasEndedAlreadySendsNothing(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		ctx, cancel := context.WithCancel(w.Caller())
		cancel()
		before := p.Scripts()
		require.ErrorIs(t, lock.Lock(ctx), context.Canceled)
		require.ErrorIs(t, testbed.ErrorOf(lock.TryLock(ctx)), context.Canceled)
		require.ErrorIs(t, testbed.ErrorOf(lock.TryLockFor(ctx, time.Minute, 0)), context.Canceled)
		assert.Equal(t, before, p.Scripts())
	})
}

// The reply is held back; the caller leaves at once, with its context's error.
func TestAGrantToACallerThatLeftIsReleased(t *testing.T) {
	testbed.EachBubble(t, map[string]network.Stage{
		"the request is held": network.Request, "the reply is held": network.Reply,
	}, func(t *testing.T, w *testbed.World, stage network.Stage) {
		p, other := w.NewClient(), w.NewClient()
		lock := p.NewLock(testbed.Key)
		me := w.Caller()
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the script is known

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

// The connection of the acquire is given up as dead, and another one is used, before the
// delayed acquire arrives.
func TestAnAcquireThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	testbed.EachBubble(t, map[string]bool{
		"its caller waits on": false, "its caller has left": true,
	}, func(t *testing.T, w *testbed.World, leave bool) {
		p, other := w.NewClient(), w.NewClient()
		lock, me := p.NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the script is known

		ctx, cancel := context.WithCancel(w.Caller())
		defer cancel()
		p.Net.Rule(network.Silence)
		result := testbed.Waits(t, func() error { return lock.Lock(ctx) })
		p.Net.Rule(nil) // new connections work
		if leave {
			cancel()
		}
		time.Sleep(5 * time.Second) // until the pings fail
		p.Net.Deliver()
		err := <-result
		if leave {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(ctx))
		}
		them := w.Caller()
		testbed.Within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(testbed.Key).Lock(them)) })
		time.Sleep(5 * time.Minute)
		assert.True(t, other.NewLock(testbed.Key).IsHeld(them))
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
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

// cancelledAtASilentServer returns a client whose server went silent, with a Lock in flight
// that was cancelled.
func cancelledAtASilentServer(w *testbed.World) *testbed.Client {
	p := w.NewClient()
	lock := p.NewLock(testbed.Key)
	require.NoError(w.T, lock.Do(w.Ctx, testbed.Nothing))
	p.Net.Rule(network.Silence)
	ctx, cancel := context.WithCancel(w.Caller())
	leaves := testbed.Waits(w.T, func() error { return lock.Lock(ctx) })
	cancel()
	require.ErrorIs(w.T, <-leaves, context.Canceled)
	return p
}

func TestAnAttemptAfterACancelledLockEndsInTime(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := cancelledAtASilentServer(w)
		lock := p.NewLock(testbed.Key)
		brief, cancel := context.WithTimeout(w.Caller(), 100*time.Millisecond)
		defer cancel()
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			require.ErrorIs(t, testbed.ErrorOf(lock.TryLock(brief)), context.DeadlineExceeded)
		})
		// A RedLock would otherwise wait for its silent servers before it asks one that answers.
		for _, longest := range []time.Duration{150 * time.Millisecond, 0} {
			testbed.Within(t, longest, longest, func() {
				err := testbed.ErrorOf(lock.TryLock(w.Caller()))
				require.Error(t, err)
				require.NotErrorIs(t, err, rlock.ErrNotAcquired, "no owner is known to have the lock")
			})
		}
		p.Net.Heal()
	})
}
