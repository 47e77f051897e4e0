package calls_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
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
		})
	}
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

func TestAnAttemptAfterACancelledLockEndsInTime(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := cancelledAtASilentServer(w)
		lock := p.NewLock(testbed.Key)
		brief, cancel := context.WithTimeout(w.Caller(), 100*time.Millisecond)
		defer cancel()
		testbed.Within(t, 100*time.Millisecond, 100*time.Millisecond, func() {
			_, err := lock.TryLock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		// A RedLock would otherwise wait for its silent servers before it asks one that answers.
		for _, longest := range []time.Duration{150 * time.Millisecond, 0} {
			testbed.Within(t, longest, longest, func() {
				taken, err := lock.TryLock(w.Caller())
				require.NoError(t, err)
				require.False(t, taken)
			})
		}
		p.Net.Heal()
	})
}
