package rlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// many is more than the number of losses of fixed leases that a client remembers.
const many = 10_000 + 1_000

// readers is the number of owners that read one lock: to Redis they are one reader.
const readers = 100

// multitude has many owners take read locks for the lease, 0 for the watchdog. It returns
// each lock with its owner.
func multitude(w *world, p *testClient, lease time.Duration) (locks []*rlock.Lock, owners []context.Context) {
	w.t.Helper()
	for i := range many {
		locks = append(locks, p.NewReadWriteLock(fmt.Sprint("multitude:", i/readers)).Read())
		owners = append(owners, w.caller())
		require.NoError(w.t, locks[i].LockFor(owners[i], lease))
	}
	return locks, owners
}

// unlogged discards the log of clients that lose many locks.
func unlogged(c *rlock.Config) { c.Logger = quiet }

func TestALostSectionIsRefusedNestedLocksHoweverManyOthersWereLostSince(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(unlogged), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		w.Del(key)
		time.Sleep(11 * time.Second)
		require.False(t, lock.IsHeld(me))

		locks, owners := multitude(w, p, 0)
		w.FlushAll()
		time.Sleep(11 * time.Second)
		synctest.Wait()

		require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
		for _, i := range []int{0, many / 2, many - 1} {
			require.ErrorIs(t, locks[i].Lock(owners[i]), rlock.ErrLost)
			require.ErrorIs(t, locks[i].Unlock(owners[i]), rlock.ErrLost)
			err := locks[i].Unlock(owners[i])
			require.ErrorIs(t, err, rlock.ErrNotHeld)
			require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")
		}
		err := lock.Unlock(me)
		require.ErrorIs(t, err, rlock.ErrLost)
		require.NotErrorIs(t, err, rlock.ErrNotHeld)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAnUnlockDoesNotDenyALossThatIsForgotten(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(unlogged)
		first, me := p.NewFencedLock(key), w.caller()
		require.NoError(t, first.LockFor(me, time.Second))
		time.Sleep(time.Second)
		_, err := first.Token(w.caller())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "all losses are remembered")

		multitude(w, p, time.Second)
		last, lastOwner := p.NewLock("last"), w.caller()
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

		hold, err := first.Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, hold.Release(w.ctx))
		err = hold.Release(w.ctx)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.NotErrorIs(t, err, rlock.ErrLost, "a handle remembers its own loss")
	})
}

func TestALossIsRememberedUntilTheEndOfTheFixedLease(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(unlogged), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.LockFor(me, time.Hour))
		w.Del(key)
		time.Sleep(11 * time.Second)
		multitude(w, p, time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
	})
}

func TestAFixedLeaseThatWasLostEarlyRefusesNestedLocksUntilItsEnd(t *testing.T) {
	for name, lose := range map[string]func(w *virtualKind, p *peer){
		"forgotten by Redis": func(w *virtualKind, _ *peer) {
			w.forget(key)
			time.Sleep(11 * time.Second)
		},
		"unlocked by force": func(w *virtualKind, p *peer) {
			freed, err := p.lock(key).ForceUnlock(w.ctx)
			require.NoError(w.t, err)
			require.True(w.t, freed)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
				const lease = time.Minute
				p, me := w.process(), w.caller()
				lock, began := p.lock(key), time.Now()
				require.NoError(t, lock.LockFor(me, lease))
				lose(w, p)
				assert.False(t, lock.IsHeld(me))
				require.ErrorIs(t, lock.Lock(me), rlock.ErrLost)
				_, err := lock.TryLockFor(me, 0, time.Second)
				require.ErrorIs(t, err, rlock.ErrLost)

				time.Sleep(time.Until(began.Add(lease)))
				require.NoError(t, lock.Lock(me), "the lease has ended: this is no nested lock")
				require.NoError(t, lock.Unlock(me))
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost, "the first")
				require.ErrorIs(t, lock.Unlock(me), rlock.ErrNotHeld)
			})
		})
	}
}

func TestAnEarlyLossOfAFixedLeaseIsLoggedAsAWarning(t *testing.T) {
	for name, lose := range map[string]func(w *world, p *testClient, me context.Context){
		"unlocked by force": func(w *world, p *testClient, _ context.Context) {
			_, err := p.NewLock(key).ForceUnlock(w.ctx)
			require.NoError(w.t, err)
		},
		"a longer lease that Redis did not confirm": func(w *world, p *testClient, me context.Context) {
			p.net.Refuse()
			require.NoError(w.t, p.NewLock(key).LockFor(me, time.Hour))
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				require.NoError(t, p.NewLock(key).LockFor(me, time.Minute))
				lose(w, p, me)
				synctest.Wait()
				assert.Equal(t, 1, p.logged("level=WARN msg=\"rlock: lock lost\""))
				require.ErrorIs(t, p.NewLock(key).Lock(me), rlock.ErrLost)
			})
		})
	}
}

// A holder that waits for the end of its hold may take the lock again at that moment, which
// is shortly before the lease in Redis ends.
func TestAfterTheEndOfAHoldWithAFixedLeaseTheOwnerMayLockAgainAtOnce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock, me := w.process().lock(key), w.caller()
		hold, err := lock.Acquire(me, rlock.WithLease(time.Second))
		require.NoError(t, err)
		<-hold.Context().Done()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

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

// A slowHandler takes its time for each record, and for each call of Enabled.
type slowHandler struct {
	slog.Handler
	pause   func()
	records []slog.Record // read at the end of the test, when the client is closed
}

func (h *slowHandler) Enabled(context.Context, slog.Level) bool {
	h.pause()
	return true
}

func (h *slowHandler) Handle(_ context.Context, r slog.Record) error {
	h.pause()
	h.records = append(h.records, r)
	return nil
}

// of returns the values of the attribute, in the order of the records that have it.
func (h *slowHandler) of(attribute string) (values []string) {
	for _, r := range h.records {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == attribute {
				values = append(values, a.Value.String())
			}
			return true
		})
	}
	return values
}

func withLogger(h slog.Handler) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Logger = slog.New(h) }
}

// losesOnlyWhatIsGone has a client, whose logger is slow, hold ten locks, and deletes five of
// them. The others stay held, and another lock is granted at once.
func losesOnlyWhatIsGone(w *world, p *testClient) {
	w.t.Helper()
	var holds []*rlock.Hold
	for i := range 10 {
		h, err := p.NewLock(fmt.Sprint("lock ", i)).Acquire(w.ctx)
		require.NoError(w.t, err)
		holds = append(holds, h)
	}
	for i := range 5 {
		w.Del(fmt.Sprint("lock ", i))
	}
	time.Sleep(time.Minute)
	for i, h := range holds {
		assert.Equal(w.t, i >= 5, h.Valid(), i)
	}
	them := w.caller()
	within(w.t, 0, 0, func() { require.NoError(w.t, p.NewLock("another").Lock(them)) })
}

func TestALoggerThatBlocksLosesNoOtherLock(t *testing.T) {
	for name, pause := range map[string]time.Duration{"for longer than a lease": 4 * time.Second, "for ever": 12 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				log := &slowHandler{pause: func() { time.Sleep(pause) }}
				p := w.client(withLease(3*time.Second), withLogger(log))
				losesOnlyWhatIsGone(w, p)
				within(t, 0, 2*time.Second, func() { require.NoError(t, p.Close()) })
				time.Sleep(24 * time.Hour)
			})
		})
	}
}

// The first loss blocks the logger; it gets the later ones in order, up to the size of the
// buffer.
func TestASlowLoggerGetsTheLossesInOrderAndTheNumberItMissed(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		resume := make(chan struct{})
		log := &slowHandler{pause: func() { <-resume }}
		p := w.client(withLogger(log))
		const losses = 1500
		for i := range losses {
			me := w.caller()
			lock := p.NewLock(fmt.Sprint(i))
			require.NoError(t, lock.Lock(me))
			w.Del(lock.Name())
			require.NoError(t, lock.Lock(me)) // the mirror of the second level finds the loss
			w.eventually(func() bool { return !lock.IsHeld(me) }, "the lock is lost")
			synctest.Wait() // the loss is logged
		}
		close(resume)
		synctest.Wait()
		require.NoError(t, p.Close())
		told := log.of("lock")
		require.Len(t, told, 1001, "the record that blocked, and 1000 in the buffer")
		for i, lock := range told {
			require.Equal(t, fmt.Sprint(i), lock)
		}
		assert.Equal(t, []string{fmt.Sprint(losses - 1001)}, log.of("count"))
	})
}

func TestALoggerMayCallTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var p *testClient
		them := w.caller()
		log := &slowHandler{pause: func() {
			if p.NewLock(key).Lock(them) == nil {
				_ = p.NewLock(key).Unlock(them)
			}
			_ = p.Close()
		}}
		p = w.client(withLogger(log), withLease(time.Second))
		me := w.caller()
		require.NoError(t, p.NewLock("lost").Lock(me))
		w.Del("lost")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, p.NewLock(key).Lock(me), rlock.ErrClosed)
		synctest.Wait()
		assert.Equal(t, []string{"lost"}, log.of("lock"))
	})
}

// A client that has reconnected asks at once whether its locks are still there.

func TestAServerWithoutTheDataIsFoundOutWhenTheConnectionComesBack(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		hold, err := p.lock(key).Acquire(w.ctx)
		require.NoError(t, err)
		w.settle()
		for _, world := range w.worlds {
			world.FlushAll() // a restart without the data
		}
		p.networks(func(n *network.Network) { n.Cut() })
		within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

// Connections are refused for a while, as during a failover.
func TestALossByAFailoverIsReportedSoonAfterTheNewPrimaryAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		w.FlushAll()
		p.net.Refuse()
		time.Sleep(5 * time.Second)
		require.NoError(t, context.Cause(hold.Context()), "no server has answered")
		p.net.Heal()
		within(t, 0, 100*time.Millisecond, func() { // with the first command that is answered
			require.NoError(t, p.NewLock("another").Do(w.ctx, nothing))
			<-hold.Context().Done()
		})
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

func TestASecondLossIsReportedAsSoonAsTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for range 2 {
			hold, err := p.NewLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
			w.FlushAll()
			p.net.Cut()
			within(t, 0, 100*time.Millisecond, func() { <-hold.Context().Done() })
			require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		}
	})
}

func TestVerifyingTakesFewCommandsHoweverOftenConnectionsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(w.ctx))
		}
		before := len(p.net.Sent("EVALSHA"))
		for range 50 { // in 5 seconds
			p.net.Cut()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, len(p.net.Sent("EVALSHA"))-before, 2*10*320/32, "batches, soon once a second, and those that a cut has interrupted; 50 times without the pauses")
		for i := range 320 {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Unlock(w.ctx))
		}
	})
}
