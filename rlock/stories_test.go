package rlock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Twenty-four failures of lock libraries, as reported in issues and post-mortems; below each
// the tests that fail on a library with that bug, or the limit in docs/guarantees.md. The
// tests that no other file had are in this one.
//
//	 1  a pause outlived the lease, and a batch of payments ran twice
//	      docs/guarantees.md: it cannot stop code that is already running
//	      TestALostHoldIsInvalidByTheClockAlone, lease.TestALeaseIsOverWhenTheMachineSlept
//	 2  after a reconnect nothing was renewed any more
//	      TestTheWatchdogOutlivesEveryReconnect, TestAFailedRenewalIsTriedAgainSoon
//	 3  a renewal that failed was a line in the log, and the work went on
//	      TestALossIsReportedBeforeRedisCanGrantTheLockToAnother, TestAKeyThatIsGoneIsALossAtTheNextRenewal
//	 4  a renewal outlived the unlock
//	      TestAfterUnlockNothingIsRenewedEver, TestAfterAnUnlockThatWasNotConfirmedNothingIsRenewedEither,
//	      lease.TestNothingIsRenewedAfterARelease
//	 5  a lock that was taken right after the last one was freed was not renewed
//	      TestALockTakenRightAfterAnUnlockIsRenewed, TestAfterALossTheNextLockIsRenewed,
//	      lease.TestAStoppedRenewableMayBeScheduledAgain
//	 6  a goroutine or a ticker stayed behind for each lock
//	      TestHeldLocksCostNoGoroutine; every bubble, and redistest.Main with goleak
//	 7  Unlock ended with the request's context, and the key stayed for minutes
//	      TestUnlockDoesNotEndWithItsContext, TestAnUnlockWorksWithAContextThatHasEnded
//	 8  an acquire timed out, and was executed
//	      TestNoCommandThatIsLostLeavesALockWithoutAHolder, TestAGrantToACallerThatLeftIsReleased
//	 9  the clean-up overtook the acquire that it was to clean up after
//	      TestAnAcquireThatArrivesFromADeadConnectionIsFreed, TestAnAcquireThatArrivesWithoutItsReleaseIsFreed,
//	      TestAnAcquireThatIsOvertakenByItsReleaseIsFreed
//	10  a command that was sent again counted twice, and the lock was never free
//	      TestAnAcquireWithoutAReplyIsAskedAgainAndHeldOnce, TestAMirrorWithoutAReplyIsSentAgain
//	11  with Redis down callers went on without a lock
//	      TestAnErrorComesWithoutAHold, TestATimeToWaitThatEndsDuringAnOutageDoesNotSayThatTheLockIsHeld
//	12  the message came between the failed attempt and the subscription
//	      TestAReleaseBeforeTheSubscriptionIsConfirmedIsNotMissed
//	13  the subscription was half open for hours
//	      TestWhereNoMessageArrivesAWaiterLooksAfterTwoSeconds, pubsub.TestASilentConnectionIsGivenUp
//	14  many names exhausted the connections for subscriptions
//	      TestTheWaitersOfManyNamesShareTheirConnectionsAndLeaveNoChannel, pubsub.TestTenThousandChannelsShareAConnection
//	15  each unlock was told to every node of a Cluster
//	      TestTheCommandsOfPubSubAreThoseOfRedissonOrOfTheConfig
//	16  a sharded subscription died with the move of its slot
//	      TestAHoldAndItsWaitersOutliveAMoveOfTheirSlot, pubsub.TestAClusterIsFollowedWhereItsSlotsGo
//	17  a failover lost the key, and two had the lock
//	      docs/guarantees.md: a failover may lose a grant
//	      TestGrantsLostInAFailover, TestAKeyThatIsGoneIsALossAtTheNextRenewal
//	18  waiting for replicas made the lock impossible to take, or counted it twice
//	      TestAGrantThatDoesNotCountIsReleasedUntilRedisAnswers, TestWithoutReplicasNoGrantCounts
//	19  scripts were flushed, and nothing worked again
//	      TestScriptsThatAreFlushedAllTheTimeAreSentAgain
//	20  the lock was evicted, or the server was full
//	      docs/guarantees.md: a wrong server setting loses locks
//	      TestAKeyThatIsGoneIsALossAtTheNextRenewal, TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked
//	21  waiters that had died were waited for
//	      TestADeadWaiterCostsOneClaim
//	22  goroutines waited for a local holder whose lease was over
//	      TestALossFreesTheLocalQueue
//	23  two were one owner, or one was two
//	      TestOwnersAreDifferentAndTheZeroOwnerIsNoOwner, TestTwoOwnersInOneGoroutineKeepEachOtherOut,
//	      TestTheFieldsOfAClientBeginWithItsIDAndNoTwoClientsShareOne, TestAHoldBelongsToItsHandleAndNotToAGoroutine,
//	      TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing
//	24  a slow network lost the lock; two services had different leases in their configs
//	      TestASlowNetworkLosesNoLock, TestTheHoldersLeaseCountsAndNotTheWaiters
//
// Related failures: a lease that was counted from the first of many attempts
// (TestALockThatWasWaitedForIsTrustedForAClaimAndThenRenewed), a lease that one call left on a
// shared object (TestALeaseDoesNotLeakIntoTheNextLock), a wake that let a later waiter
// through (TestAMessageThatIsNoReleaseIsHarmless), a panic in the section
// (TestDoReleasesWhenTheFunctionPanicsOrEndsItsGoroutine).

// The watchdog checks leases at the pace of its wheel, and not at all while the process is
// stopped; Valid and IsHeld are exact to the nanosecond.
func TestALostHoldIsInvalidByTheClockAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		p.net.Rule(network.Silence)
		until := hold.ValidUntil()
		time.Sleep(time.Until(until) - time.Nanosecond)
		assert.True(t, hold.Valid())
		time.Sleep(time.Nanosecond)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.True(t, w.Exists(key), "the hold must end long before the lease in Redis")
	})
}

func TestTheWatchdogOutlivesEveryReconnect(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		for range 500 {
			time.Sleep(7 * time.Second)
			p.net.Cut()
			assert.Greater(t, w.ttl(key), 10*time.Second)
		}
		assert.True(t, lock.IsHeld(me))
		synctest.Wait() // until the client has seen the last cut
		require.NoError(t, lock.Unlock(me))
	})
}

func TestALockTakenRightAfterAnUnlockIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewLock(key)
		for _, held := range []time.Duration{0, time.Nanosecond, 9999 * time.Millisecond, 10 * time.Second, 10001 * time.Millisecond, 29 * time.Second} {
			require.NoError(t, lock.Lock(me))
			time.Sleep(held)
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, lock.Lock(me))
			time.Sleep(5 * time.Minute)
			assert.True(t, lock.IsHeld(me))
			assert.Positive(t, w.ttl(key))
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestHeldLocksCostNoGoroutine(t *testing.T) {
	manyCommands(t)
	bubbleAlone(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
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

// A call that fails returns no Hold, does not call Do's function, and does not report that
// another owner holds the lock.
func TestAnErrorComesWithoutAHold(t *testing.T) {
	faults := map[string]func(w *world, p *testClient){
		"refused": func(_ *world, p *testClient) { p.net.Refuse() },
		"silent":  func(_ *world, p *testClient) { p.net.Rule(network.Silence) },
		"full": func(w *world, _ *testClient) {
			w.answerScripts("OOM command not allowed when used memory > 'maxmemory'.")
		},
		"denied": func(w *world, _ *testClient) { w.answerScripts("NOPERM this user has no permissions") },
		"garbage": func(_ *world, p *testClient) {
			p.net.Rule(network.All(network.Replace("+OK\r\n"), network.Reply, "EVALSHA"))
		},
	}
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				lock := p.NewLock(key)
				fail(w, p)
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				defer cancel()
				for _, wait := range []time.Duration{0, time.Second, time.Hour} {
					hold, err := lock.Acquire(ctx, rlock.WithWait(wait))
					require.Error(t, err)
					require.NotErrorIs(t, err, rlock.ErrNotAcquired)
					require.Nil(t, hold)
				}
				time.Sleep(10 * time.Second) // until acquires in flight are undone or given up
				ok, err := lock.TryLock(w.caller())
				require.Error(t, err)
				require.False(t, ok)
				err = lock.Do(ctx, func(context.Context) error {
					require.FailNow(t, "the function runs without the lock")
					return nil
				})
				require.Error(t, err)
				w.answerScripts("")
				p.net.Heal()
				time.Sleep(time.Minute)
				require.Empty(t, w.Keys())
			})
		})
	}
}

// Redis still counts the dead clients among the subscribers, and grants each the lock for a
// claim of two seconds.
func TestADeadWaiterCostsOneClaim(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder := w.client(func(c *rlock.Config) { c.HandoffLimit = -1 })
		me, next, last := w.caller(), w.caller(), w.caller()
		lock := holder.NewLock(key)
		require.NoError(t, lock.Lock(me))
		for range 3 {
			dead := w.client()
			waits := start(func() error { return dead.NewLock(key).Lock(w.ctx) })
			require.True(t, pending(waits))
			dead.net.Rule(network.Silence)
			defer func() { dead.Close(); <-waits }()
		}
		alive := w.client()
		there := start(func() error { return alive.NewLock(key).Lock(next) })
		require.True(t, pending(there))
		here := start(func() error { return lock.Lock(last) })
		require.True(t, pending(here))
		time.Sleep(11 * time.Second) // a renewal, which finds that others wait

		within(t, 6*time.Second, 7*time.Second, func() {
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-there)
		})
		require.True(t, pending(here))
		within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, alive.NewLock(key).Unlock(next))
			require.NoError(t, <-here)
		})
		require.NoError(t, lock.Unlock(last))
	})
}

func TestASlowNetworkLosesNoLock(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		p.net.SetRoundTrip(1500 * time.Millisecond)
		hold, err := p.NewLock(key).Acquire(me)
		require.NoError(t, err)
		for range 60 {
			time.Sleep(time.Minute)
			require.Greater(t, time.Until(hold.ValidUntil()), 10*time.Second)
		}
		require.NoError(t, hold.Release(me))
	})
}

func TestTheHoldersLeaseCountsAndNotTheWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		long, short := w.client(withLease(2*time.Minute)), w.client(withLease(time.Second))
		require.NoError(t, long.NewLock(key).Lock(w.caller()))
		long.net.Refuse() // its client has died
		me := w.caller()
		within(t, 2*time.Minute, 2*time.Minute+100*time.Millisecond, func() {
			require.NoError(t, short.NewLock(key).Lock(me))
		})
		assert.LessOrEqual(t, w.ttl(key), time.Second)
		require.NoError(t, short.NewLock(key).Unlock(me))
	})
}

func TestALockThatWasWaitedForIsTrustedForAClaimAndThenRenewed(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		holder, waiter, me := w.client(), w.client(), w.caller()
		require.NoError(t, holder.NewLock(key).Lock(me))
		granted := make(chan *rlock.Hold, 1)
		result := start(func() error {
			hold, err := waiter.NewLock(key).Acquire(w.ctx)
			granted <- hold
			return err
		})
		time.Sleep(time.Hour + 100*time.Millisecond) // soon after a look
		require.NoError(t, holder.NewLock(key).Unlock(me))
		require.NoError(t, <-result)
		hold := <-granted
		assert.Greater(t, time.Until(hold.ValidUntil()), time.Second)
		assert.LessOrEqual(t, time.Until(hold.ValidUntil()), 2*time.Second)
		time.Sleep(time.Second)
		assert.Greater(t, time.Until(hold.ValidUntil()), 19*time.Second)
		require.NoError(t, hold.Release(w.ctx))
	})
}
