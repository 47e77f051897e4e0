package rlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The connection of the acquire is given up as dead, and another one is used, before the
// delayed acquire arrives.
func TestAnAcquireThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	for name, leave := range map[string]bool{"its caller waits on": false, "its caller has left": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other := w.client(), w.client()
				lock, me := p.NewLock(key), w.caller()
				require.NoError(t, lock.Lock(me)) // the script is known
				require.NoError(t, lock.Unlock(me))

				ctx, cancel := context.WithCancel(w.caller())
				defer cancel()
				p.net.Rule(network.Silence)
				result := start(func() error { return lock.Lock(ctx) })
				require.True(t, pending(result))
				p.net.Rule(nil) // new connections work
				if leave {
					cancel()
				}
				time.Sleep(5 * time.Second) // until the pings fail
				p.net.Deliver()
				err := <-result
				if leave {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
					require.NoError(t, lock.Unlock(ctx))
				}
				them := w.caller()
				within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
				time.Sleep(5 * time.Minute)
				assert.True(t, other.NewLock(key).IsHeld(them))
				require.NoError(t, other.NewLock(key).Unlock(them))
			})
		})
	}
}

func TestOneAttemptThatArrivesFromADeadConnectionIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other := w.client(), w.client()
		lock, me := p.NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))

		p.net.Rule(network.Silence)
		result := start(func() error { _, err := lock.TryLock(me); return err })
		require.True(t, pending(result))
		p.net.Rule(nil) // new connections work
		require.Error(t, <-result, "until the pings fail")
		time.Sleep(time.Second)
		p.net.Deliver() // the acquire, and the release that may be behind it
		them := w.caller()
		within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
		require.NoError(t, other.NewLock(key).Unlock(them))
	})
}

// As before, but only the acquire arrives late: the release behind it is lost, and the
// repeated one came over a new connection, too early.
func TestAnAcquireThatArrivesWithoutItsReleaseIsFreed(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p, other := w.client(), w.client()
		lock, me := p.NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me)) // the script is known
		require.NoError(t, lock.Unlock(me))

		ctx, cancel := context.WithCancel(w.caller())
		p.net.Rule(network.Silence)
		result := start(func() error { return lock.Lock(ctx) })
		require.True(t, pending(result))
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		synctest.Wait()
		p.net.Rule(nil)
		sent := len(p.releases())
		w.eventually(func() bool { return len(p.releases()) > sent }, "the release is sent over a new connection")
		synctest.Wait()
		p.net.Rule(scripts(1, network.Cut, network.Request, "released"))
		p.net.Deliver()
		them := w.caller()
		within(t, 0, 10*time.Second, func() { require.NoError(t, other.NewLock(key).Lock(them)) })
		require.NoError(t, other.NewLock(key).Unlock(them))
	})
}

func TestAnAttemptAfterACancelledLockGetsTheFreeLock(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		if w.kind.servers > 0 || w.kind.keys != nil {
			t.Skip("its parts are released in the background, and held until then")
		}
		if w.kind.many {
			t.Skip("a single attempt does not wait for the release of a cancelled one")
		}
		p := w.process()
		lock := p.lock(key)
		require.NoError(t, lock.Do(w.ctx, nothing)) // the scripts are known
		w.settle()
		p.networks(func(n *network.Network) { n.SetRoundTrip(roundTrip) })
		for after := time.Millisecond; after < 2*roundTrip; after += time.Millisecond {
			ctx, cancel := context.WithCancel(w.caller())
			leaves := start(func() error { return lock.Lock(ctx) })
			time.Sleep(after)
			cancel()
			if err := <-leaves; err == nil { // granted before it was cancelled
				require.NoError(t, lock.Unlock(ctx))
				continue
			}
			me := w.caller()
			within(t, roundTrip, 4*roundTrip, func() {
				taken, err := lock.TryLock(me)
				require.NoError(t, err)
				require.True(t, taken, "cancelled after %v", after)
			})
			require.NoError(t, lock.Unlock(me))
			w.settle()
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.keys())
	})
}

// busy stands for a command that Redis refuses for a while.
const busy = "*3\r\n$4\r\nEVAL\r\n$45\r\nreturn redis.error_reply('BUSY for a little')\r\n$1\r\n0\r\n"

// The release of an unwanted ticket may be late, and Redis may grant it the lock meanwhile.
func TestAnAttemptGetsALockThatWasGrantedToACancelledOne(t *testing.T) {
	for name, of := range map[string]func(*rlock.Client) *rlock.Lock{
		"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(key) },
		"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(key) },
		"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(key) },
		"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock, theirs := of(p.Client), of(w.client().Client)
				me, them := w.caller(), w.caller()
				require.NoError(t, theirs.Lock(them))
				ctx, cancel := context.WithCancel(w.caller())
				leaves := start(func() error { return lock.Lock(ctx) })
				require.True(t, pending(leaves))
				p.net.Rule(scripts(1, network.Replace(busy), network.Request, "released"))
				cancel()
				require.ErrorIs(t, <-leaves, context.Canceled)
				synctest.Wait()
				require.NoError(t, theirs.Unlock(them))
				require.True(t, w.Exists(key), "it is granted to the ticket of the cancelled Lock")

				taken, err := lock.TryLock(me)
				require.NoError(t, err)
				require.True(t, taken)
				time.Sleep(time.Minute)
				require.True(t, lock.IsHeld(me))
				require.NoError(t, lock.Unlock(me))
				synctest.Wait()
				assert.False(t, w.Exists(key))
			})
		})
	}
}

// A release that is refused is tried again less and less often.
func TestTheMessageOfAGrantReleasesAnUnwantedTicket(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, holder, them, me := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(them))
		ctx, cancel := context.WithCancel(w.caller())
		leaves := w.waiting(p, ctx)
		stays := w.waiting(p, me)
		var refuses atomic.Bool
		refuses.Store(true)
		p.net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Request && isScript(f, "released") && refuses.Load() {
				return network.Replace(busy)
			}
			return network.Pass
		})
		cancel()
		require.ErrorIs(t, <-leaves, context.Canceled)
		time.Sleep(400 * time.Millisecond) // the last attempt was after 350 ms, the next is after 750
		refuses.Store(false)
		within(t, 0, 0, func() {
			require.NoError(t, holder.NewFairLock(key).Unlock(them))
			require.NoError(t, <-stays)
		})
		require.NoError(t, p.NewFairLock(key).Unlock(me))
	})
}

// cancelledAtASilentServer returns a client whose server went silent, with a Lock in flight
// that was cancelled.
func (w *world) cancelledAtASilentServer() *testClient {
	p := w.client()
	lock := p.NewLock(key)
	require.NoError(w.t, lock.Do(w.ctx, nothing))
	p.net.Rule(network.Silence)
	ctx, cancel := context.WithCancel(w.caller())
	leaves := start(func() error { return lock.Lock(ctx) })
	require.True(w.t, pending(leaves))
	cancel()
	require.ErrorIs(w.t, <-leaves, context.Canceled)
	return p
}

func TestAnAttemptAfterACancelledLockEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.cancelledAtASilentServer()
		lock := p.NewLock(key)
		brief, cancel := context.WithTimeout(w.caller(), 100*time.Millisecond)
		defer cancel()
		within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			_, err := lock.TryLock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		p.net.Heal()
	})
}

// A RedLock would otherwise wait for its silent servers before it asks one that answers.
func TestAnAttemptDoesNotWaitForAServerThatHasBeenSilentForLong(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.cancelledAtASilentServer()
		lock := p.NewLock(key)
		for _, longest := range []time.Duration{250 * time.Millisecond, 0} {
			within(t, longest, longest, func() {
				taken, err := lock.TryLock(w.caller())
				require.NoError(t, err)
				require.False(t, taken)
			})
		}
		p.net.Heal()
	})
}
