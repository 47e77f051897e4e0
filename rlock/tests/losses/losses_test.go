// Package losses_test is about how long a hold is valid, how it is renewed, and that its loss is
// reported in time and remembered.
package losses_test

import (
	"context"
	"fmt"
	"runtime"
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

func TestMain(m *testing.M) { testbed.Main(m) }

func TestVerifyingTakesFewCommandsHoweverOftenConnectionsEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.Ctx))
		}
		before := p.Stats().Renewals // each asks about one lock, however many are in a batch
		for range 50 {               // in 5 seconds
			p.Net.Cut()
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, p.Stats().Renewals-before, int64(10*320), "nine times, soon once a second; 50 times without the pauses")
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Unlock(w.Ctx))
		}
	})
}

func TestAnUnlockDoesNotDenyALossThatIsForgotten(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.Logger = testbed.Quiet })
		first, me := p.NewFencedLock(testbed.Key), w.Caller()
		require.NoError(t, first.LockFor(me, time.Second))
		time.Sleep(time.Second)
		_, err := first.Token(w.Caller())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")

		read := p.NewReadWriteLock("many").Read() // its owners are one reader to Redis
		for range 11_000 {                        // more than a client remembers
			require.NoError(t, read.LockFor(w.Caller(), time.Second))
		}
		last, lastOwner := p.NewLock("last"), w.Caller()
		require.NoError(t, last.LockFor(lastOwner, 2*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		either := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		either(first.Unlock(me))
		_, err = first.Token(me)
		either(err)
		either(last.Unlock(me))
		either(rlock.NewMultiLock(first, last).Unlock(me))

		err = last.Unlock(lastOwner)
		require.ErrorIs(t, err, rlock.ErrLost)
		require.NotErrorIs(t, err, rlock.ErrNotHeld, "the latest loss is remembered")

		hold := testbed.Take(t, w.Ctx, first)
		require.NoError(t, hold.Release(w.Ctx))
		err = hold.Release(w.Ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "a handle remembers its own loss")
	})
}

// The command that set the lease last counts: a compound lock sets the lease again when the
// acquires of its parts took long.
func TestValidityIsCountedFromBeforeTheSend(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		synctest.Wait()                                  // a compound lock has waited for most servers only
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

func TestTheWatchdogKeepsALockForAnHour(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		looks := 100
		if w.Kind.Name != "plain" {
			looks = 10
		}
		for range looks {
			time.Sleep(36700 * time.Millisecond)
			require.GreaterOrEqual(t, w.Remaining(), 20*time.Second-50*time.Millisecond, "renewed at a third")
			require.True(t, lock.IsHeld(me))
		}
		require.NoError(t, lock.Unlock(me))
		time.Sleep(2 * time.Millisecond) // the keeper sends releases, one batch in a millisecond
		synctest.Wait()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	testbed.EachBubble(t, map[string]func(*testbed.World, *testbed.Client){
		"cut":    func(_ *testbed.World, p *testbed.Client) { p.Net.Refuse() },
		"silent": func(_ *testbed.World, p *testbed.Client) { p.Net.Rule(network.Silence) },
		"loading": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("LOADING Redis is loading the dataset in memory")
		},
		"read only": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("READONLY You can't write against a read only replica.")
		},
	}, func(t *testing.T, w *testbed.World, fail func(*testbed.World, *testbed.Client)) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(9 * time.Second)
		fail(w, p)
		time.Sleep(18 * time.Second) // the renewal was due 17 s ago
		w.AnswerScripts("")
		p.Net.Heal()
		time.Sleep(time.Second + 50*time.Millisecond)
		assert.GreaterOrEqual(t, w.Remaining(testbed.Key), 28*time.Second, "a failed renewal is retried after a second at most")
		assert.True(t, lock.IsHeld(me))
		require.NoError(t, lock.Unlock(me))
		assert.Zero(t, p.Logged("lock lost"))
	})
}

func TestAfterUnlockNothingIsRenewedEver(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		for range 2 {
			require.NoError(t, lock.Lock(me))
			require.NoError(t, lock.Lock(me)) // the mirror of the second level may still be in flight when both levels are unlocked
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, lock.Unlock(me))
			time.Sleep(time.Second) // a part of a red lock may be released behind the call
			sent := p.Scripts()
			time.Sleep(time.Minute)
			require.Empty(t, w.KeysLeft())
			require.Equal(t, sent, p.Scripts(), "a mirror was sent after Unlock")
		}
	})
}

// One lock that cannot be renewed does not affect the others, though they share a call.
func TestALockThatCannotBeRenewedAffectsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	s := testbed.At(t, redistest.Standalone(t, "--save", ""))
	client, me := s.NewClient(testbed.WithLease(lease)), rlock.WithOwner(s.Ctx, rlock.NewOwner())
	s.Ctx = me
	var holds []*rlock.Hold
	for _, name := range []string{"odd", "gone", "even:0", "even:1", "even:2", "even:3"} {
		holds = append(holds, testbed.Take(t, me, client.NewLock(name)))
	}
	s.Number("DEL", "gone")
	s.Admin("ACL", "SETUSER", "default", "resetkeys", "~gone", "~even:*", "~redisson_lock__channel:*")
	renewed := time.Now().Add(lease)
	for _, hold := range holds[2:] {
		require.Eventually(t, func() bool { return hold.ValidUntil().After(renewed) }, testbed.Hang, time.Millisecond)
	}
	testbed.RequireLoss(t, s.Ctx, holds[1])
	assert.NoError(t, context.Cause(holds[0].Context()), "an error is not a loss")
	s.Admin("ACL", "SETUSER", "default", "allkeys")
	require.Eventually(t, func() bool { return holds[0].ValidUntil().After(renewed) }, testbed.Hang, time.Millisecond)
	testbed.Release(t, me, append(holds[2:], holds[0])...)
}

func TestHeldLocksCostNoGoroutine(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		require.NoError(t, p.NewLock("first").Lock(me))
		synctest.Wait()
		before := runtime.NumGoroutine()
		for n := range 1000 {
			require.NoError(t, p.NewLock(string(rune('a'+n))).Lock(me))
		}
		time.Sleep(time.Minute)
		assert.Less(t, runtime.NumGoroutine(), before+100)
	})
}
