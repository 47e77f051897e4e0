package calls_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The connection of the acquire is given up as dead, and another one is used, before the
// delayed acquire arrives.
func TestAnAcquireThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	for name, leave := range map[string]bool{"its caller waits on": false, "its caller has left": true} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, other := w.NewClient(), w.NewClient()
				lock, me := p.NewLock(testbed.Key), w.Caller()
				require.NoError(t, lock.Lock(me)) // the script is known
				require.NoError(t, lock.Unlock(me))

				ctx, cancel := context.WithCancel(w.Caller())
				defer cancel()
				p.Net.Rule(network.Silence)
				result := testbed.Start(func() error { return lock.Lock(ctx) })
				require.True(t, testbed.Pending(result))
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
		})
	}
}

func TestOneAttemptThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		lock, me := p.NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))

		p.Net.Rule(network.Silence)
		result := testbed.Start(func() error { _, err := lock.TryLock(me); return err })
		require.True(t, testbed.Pending(result))
		p.Net.Rule(nil) // new connections work
		require.Error(t, <-result, "until the pings fail")
		time.Sleep(time.Second)
		p.Net.Deliver() // the acquire, and the release that may be behind it
		them := w.Caller()
		testbed.Within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(testbed.Key).Lock(them)) })
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
	})
}

// As before, but only the acquire arrives late: the release behind it is lost, and the
// repeated one came over a new connection, too early.
func TestAnAcquireThatArrivesWithoutItsReleaseIsFreed(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		lock, me := p.NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))

		ctx, cancel := context.WithCancel(w.Caller())
		p.Net.Rule(network.Silence)
		result := testbed.Start(func() error { return lock.Lock(ctx) })
		require.True(t, testbed.Pending(result))
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		synctest.Wait()
		p.Net.Rule(nil)
		sent := len(p.Releases())
		w.Eventually(func() bool { return len(p.Releases()) > sent }, "the release is sent over a new connection")
		synctest.Wait()
		p.Net.Rule(testbed.Scripts(1, network.Cut, network.Request, "released"))
		p.Net.Deliver()
		them := w.Caller()
		testbed.Within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(testbed.Key).Lock(them)) })
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
				taken, err := lock.TryLock(me)
				require.NoError(t, err)
				require.True(t, taken, "cancelled after %v", after)
			})
			require.NoError(t, lock.Unlock(me))
			w.Settle()
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.KeysLeft())
	})
}

// busy stands for a command that Redis refuses for a while.
const busy = "*3\r\n$4\r\nEVAL\r\n$45\r\nreturn redis.error_reply('BUSY for a little')\r\n$1\r\n0\r\n"

// The release of an unwanted ticket may be late, and Redis may grant it the lock meanwhile.
func TestAnAttemptGetsALockThatWasGrantedToACancelledOne(t *testing.T) {
	for name, of := range map[string]func(*rlock.Client) *rlock.Lock{
		"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(testbed.Key) },
		"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(testbed.Key) },
		"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(testbed.Key) },
		"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Write() },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient()
				lock, theirs := of(p.Client), of(w.NewClient().Client)
				me, them := w.Caller(), w.Caller()
				require.NoError(t, theirs.Lock(them))
				ctx, cancel := context.WithCancel(w.Caller())
				leaves := testbed.Start(func() error { return lock.Lock(ctx) })
				require.True(t, testbed.Pending(leaves))
				p.Net.Rule(testbed.Scripts(1, network.Replace(busy), network.Request, "released"))
				cancel()
				require.ErrorIs(t, <-leaves, context.Canceled)
				synctest.Wait()
				require.NoError(t, theirs.Unlock(them))
				require.True(t, w.Exists(testbed.Key), "it is granted to the ticket of the cancelled Lock")

				taken, err := lock.TryLock(me)
				require.NoError(t, err)
				require.True(t, taken)
				time.Sleep(time.Minute)
				require.True(t, lock.IsHeld(me))
				require.NoError(t, lock.Unlock(me))
				synctest.Wait()
				assert.False(t, w.Exists(testbed.Key))
			})
		})
	}
}

// A release that is refused is tried again less and less often.
func TestTheMessageOfAGrantReleasesAnUnwantedTicket(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, holder, them, me := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, holder.NewFairLock(testbed.Key).Lock(them))
		ctx, cancel := context.WithCancel(w.Caller())
		leaves := w.Waiting(p, ctx)
		stays := w.Waiting(p, me)
		var refuses atomic.Bool
		refuses.Store(true)
		p.Net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Request && testbed.IsScript(f, "released") && refuses.Load() {
				return network.Replace(busy)
			}
			return network.Pass
		})
		cancel()
		require.ErrorIs(t, <-leaves, context.Canceled)
		time.Sleep(400 * time.Millisecond) // the last attempt was after 350 ms, the next is after 750
		refuses.Store(false)
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, holder.NewFairLock(testbed.Key).Unlock(them))
			require.NoError(t, <-stays)
		})
		require.NoError(t, p.NewFairLock(testbed.Key).Unlock(me))
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
	leaves := testbed.Start(func() error { return lock.Lock(ctx) })
	require.True(w.T, testbed.Pending(leaves))
	cancel()
	require.ErrorIs(w.T, <-leaves, context.Canceled)
	return p
}

func TestAnAttemptAfterACancelledLockEndsWithItsContext(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := cancelledAtASilentServer(w)
		lock := p.NewLock(testbed.Key)
		brief, cancel := context.WithTimeout(w.Caller(), 100*time.Millisecond)
		defer cancel()
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			_, err := lock.TryLock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		p.Net.Heal()
	})
}

// A RedLock would otherwise wait for its silent servers before it asks one that answers.
func TestAnAttemptDoesNotWaitForAServerThatHasBeenSilentForLong(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := cancelledAtASilentServer(w)
		lock := p.NewLock(testbed.Key)
		for _, longest := range []time.Duration{250 * time.Millisecond, 0} {
			testbed.Within(t, longest, longest, func() {
				taken, err := lock.TryLock(w.Caller())
				require.NoError(t, err)
				require.False(t, taken)
			})
		}
		p.Net.Heal()
	})
}
