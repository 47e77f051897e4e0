package losses_test

import (
	"context"
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

// The command that set the lease last counts: a compound lock sets the lease again when the
// acquires of its parts took long.
func TestValidityIsCountedFromBeforeTheSend(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		w.Settle()
		p.Networks(func(n *network.Network) { n.Rule(testbed.EveryScript(network.Hold, network.Reply)) })
		var hold *rlock.Hold
		result := testbed.Start(func() (err error) {
			hold, err = lock.Acquire(me, rlock.WithLease(10*time.Second))
			return err
		})
		time.Sleep(1500 * time.Millisecond)
		p.Heal()
		require.NoError(t, <-result)
		assert.LessOrEqual(t, time.Until(hold.ValidUntil()), w.Remaining(), "the hold must end before the lease in Redis")
		synctest.Wait()
		ends := time.Now().Add(w.Remaining())
		drift := 100*time.Millisecond + 2*time.Millisecond + 10*time.Millisecond
		assert.WithinDuration(t, ends.Add(-drift), hold.ValidUntil(), time.Millisecond)
		<-hold.Context().Done()
		assert.True(t, time.Now().Before(ends))
	})
}

// The bytes are held back in both directions: only the clock tells the holder that something
// is wrong.
func TestALossIsReportedBeforeRedisCanGrantTheLockToAnother(t *testing.T) {
	redistest.Slow(t)
	for name, fail := range map[string]func(*testbed.Peer){
		"silent": (*testbed.Peer).Silence,
		"replies lost": func(p *testbed.Peer) {
			p.Networks(func(n *network.Network) { n.Rule(testbed.EveryScript(network.Cut, network.Request)) })
		},
	} {
		if testbed.Fewer() && name != "replies lost" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
				p, other := w.NewProcess(), w.NewProcess()
				owner := rlock.WithOwner(w.Ctx, rlock.NewOwner())
				lock := p.NewLock(testbed.Key)
				hold := testbed.Take(t, owner, lock)
				require.NoError(t, lock.Lock(owner))
				time.Sleep(15 * time.Second)

				fail(p)
				granted := make(chan time.Time, 1)
				them := w.Caller()
				taken := testbed.Start(func() error {
					err := other.NewLock(testbed.Key).Rival.Lock(them)
					granted <- time.Now()
					return err
				})
				<-hold.Context().Done()
				lost := time.Now()
				assert.False(t, lock.IsHeld(owner))
				assert.Zero(t, lock.HoldCount(owner))
				assert.False(t, hold.Valid())
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)

				require.NoError(t, <-taken)
				assert.True(t, lost.Before(<-granted))
				assert.Positive(t, p.Logged("lock lost"))
				require.NoError(t, other.NewLock(testbed.Key).Rival.Unlock(them))
			})
		})
	}
}

// The watchdog checks leases at the pace of its wheel, and not at all while the process is
// stopped; Valid and IsHeld are exact to the nanosecond.
func TestALostHoldIsInvalidByTheClockAlone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		p.Net.Rule(network.Silence)
		until := hold.ValidUntil()
		time.Sleep(time.Until(until) - time.Nanosecond)
		assert.True(t, hold.Valid())
		time.Sleep(time.Nanosecond)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.True(t, w.Exists(testbed.Key), "the hold must end long before the lease in Redis")
	})
}

func TestALockThatWasWaitedForIsTrustedForAClaimAndThenRenewed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, waiter, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, holder.NewLock(testbed.Key).Lock(me))
		granted := make(chan *rlock.Hold, 1)
		result := testbed.Start(func() error {
			hold, err := waiter.NewLock(testbed.Key).Acquire(w.Ctx)
			granted <- hold
			return err
		})
		time.Sleep(2*time.Minute + 100*time.Millisecond) // several leases, and soon after a look
		require.NoError(t, holder.NewLock(testbed.Key).Unlock(me))
		require.NoError(t, <-result)
		hold := <-granted
		assert.Greater(t, time.Until(hold.ValidUntil()), time.Second)
		assert.LessOrEqual(t, time.Until(hold.ValidUntil()), 2*time.Second)
		time.Sleep(time.Second)
		assert.Greater(t, time.Until(hold.ValidUntil()), 19*time.Second)
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestTheHoldersLeaseCountsAndNotTheWaiters(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		long, short := w.NewClient(testbed.WithLease(2*time.Minute)), w.NewClient(testbed.WithLease(time.Second))
		require.NoError(t, long.NewLock(testbed.Key).Lock(w.Caller()))
		long.Net.Refuse() // its client has died
		me := w.Caller()
		testbed.Within(t, 2*time.Minute, 2*time.Minute+100*time.Millisecond, func() {
			require.NoError(t, short.NewLock(testbed.Key).Lock(me))
		})
		assert.LessOrEqual(t, w.Remaining(testbed.Key), time.Second)
		require.NoError(t, short.NewLock(testbed.Key).Unlock(me))
	})
}

// Redis still counts the dead clients among the subscribers, and grants each the lock for a
// claim of two seconds.
func TestADeadWaiterCostsOneClaim(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder := w.NewClient(func(c *rlock.Config) { c.Advanced.HandoffLimit = -1 })
		me, next, last := w.Caller(), w.Caller(), w.Caller()
		lock := holder.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		for range 3 {
			dead := w.NewClient()
			waits := testbed.Waits(t, func() error { return dead.NewLock(testbed.Key).Lock(w.Ctx) })
			dead.Net.Rule(network.Silence)
			defer func() { dead.Close(); <-waits }()
		}
		alive := w.NewClient()
		there := testbed.Waits(t, func() error { return alive.NewLock(testbed.Key).Lock(next) })
		here := testbed.Waits(t, func() error { return lock.Lock(last) })
		time.Sleep(11 * time.Second) // a renewal, which finds that others wait

		testbed.Within(t, 6*time.Second, 7*time.Second, func() {
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-there)
		})
		require.True(t, testbed.Pending(here))
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, alive.NewLock(testbed.Key).Unlock(next))
			require.NoError(t, <-here)
		})
		require.NoError(t, lock.Unlock(last))
	})
}

// A call that fails returns no Hold, does not call Do's function, and does not report that
// another owner holds the lock.
func TestAnErrorComesWithoutAHold(t *testing.T) {
	faults := map[string]func(w *testbed.World, p *testbed.Client){
		"refused": func(_ *testbed.World, p *testbed.Client) { p.Net.Refuse() },
		"silent":  func(_ *testbed.World, p *testbed.Client) { p.Net.Rule(network.Silence) },
		"full": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("OOM command not allowed when used memory > 'maxmemory'.")
		},
		"denied": func(w *testbed.World, _ *testbed.Client) { w.AnswerScripts("NOPERM this user has no permissions") },
		"garbage": func(_ *testbed.World, p *testbed.Client) {
			p.Net.Rule(network.All(network.Replace("+OK\r\n"), network.Reply, "EVALSHA"))
		},
	}
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient()
				lock := p.NewLock(testbed.Key)
				fail(w, p)
				ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
				defer cancel()
				for _, wait := range []time.Duration{0, time.Second, time.Hour} {
					hold, err := lock.Acquire(ctx, rlock.WithWait(wait))
					require.Error(t, err)
					require.NotErrorIs(t, err, rlock.ErrNotAcquired)
					require.Nil(t, hold)
				}
				time.Sleep(10 * time.Second) // until acquires in flight are undone or given up
				ok, err := lock.TryLock(w.Caller())
				require.Error(t, err)
				require.False(t, ok)
				err = lock.Do(ctx, func(context.Context) error {
					require.FailNow(t, "the function runs without the lock")
					return nil
				})
				require.Error(t, err)
				w.AnswerScripts("")
				p.Net.Heal()
				time.Sleep(time.Minute)
				require.Empty(t, w.Keys())
			})
		})
	}
}
