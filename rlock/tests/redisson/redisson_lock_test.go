package redisson_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson's own tests of RLock (4.7): the behaviour that each checks, and whether rlock
// keeps it, improves on it, or does not need it, with the test here that proves it. The tests
// that are only Redisson's are in this file.
//
//	RedissonLockTest
//	  testSubscriptionsPerConnection: 5 names, 32 threads, one subscribing connection of one channel: no error but
//	    timeouts, no channel left. Better: no error at all, however many channels
//	    (TestTheWaitersOfManyNamesShareTheirConnectionsAndLeaveNoChannel)
//	  testSinglePubSub: the same with tryLock(100 ms): all have the lock. Better, as above
//	    (TestTheWaitersOfManyNamesShareTheirConnectionsAndLeaveNoChannel)
//	  testLockIsNotRenewedAfterInterruptedTryLock: a thread that is interrupted in tryLock leaves no lock. Kept
//	    (TestACancelledLockReturnsTheContextsErrorAndHoldsNothing, TestAGrantToACallerThatLeftIsReleased)
//	  testRedisFailed: tryLock(5 s) throws when Redis is down. Kept: an error, not false
//	    (TestATimeToWaitThatEndsDuringAnOutageDoesNotSayThatTheLockIsHeld,
//	    TestATransientErrorIsRetriedOrReturnedByAnAttempt)
//	  testRemainTimeToLive: 1 h; -2 when free; then 30 s, since a lease is of one lock() only. Kept, but 0 when free
//	    (TestTTLIsTheLeaseWhileHeldAndZeroWhenFree)
//	  testRemainTimeToLive2: lock(10 s) three times, unlock() twice: up to 10 s are left. Kept
//	    (TestTheLongestOpenLevelWins)
//	  testTryLockWait: tryLock(3 s) of a held lock gives up after 3 s. Kept (TestAcquireWaitsForTheTimeOfItsOption)
//	  testLockUninterruptibly: an interrupt does not end lock(lease). Kept as a choice: the context says whether a
//	    call may be interrupted (TestALockWithAContextWithoutEndIsNotInterrupted)
//	  testForceUnlock: it is free afterwards. Better: the holder learns it
//	    (TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt)
//	  testExpire: after lock(2 s) another has it within 2.02 s; the late unlock() throws. Better: it says ErrLost,
//	    and the holder's context has ended before (TestTheEndOfAFixedLeaseFreesTheLock)
//	  testAutoExpire: a client that is shut down leaves its lock for up to 30 s. Better: Close releases it; that of
//	    a process that died ends with its lease (TestCloseEndsEveryWaitAtOnce,
//	    TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds)
//	  testGetHoldCount, testReentrancy: 0, 1, 0, 2, 1, 0; others are kept out at each level. Kept
//	    (TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked)
//	  testIsLocked, testIsLockedOtherThread, testIsHeldByCurrentThread(OtherThread): the state before, during and
//	    after a hold. Kept (TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld)
//	  testUnlockFail: unlock() by another thread throws. Kept: ErrNotHeld
//	    (TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing)
//	  testLockUnlock: a lock may be used again. Kept (TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked)
//	  testInCluster, testLockFailoverInCluster: lock, isLocked, unlock in a Cluster. Better: through failovers and
//	    moved slots (every test that begins with everywhere;
//	    TestAHoldAndItsWaitersOutliveAFailoverAndAMoveOfTheirSlot)
//	  testConcurrencyTryLockUnLock: 16 threads: the watchdog renews each hold until its unlock. Kept
//	    (TestTheWatchdogKeepsALockForAnHour, TestAfterUnlockNothingIsRenewedEver)
//	  testConcurrency_SingleInstance, testConcurrency_MultiInstance, testConcurrencyLoop_MultiInstance: 15 threads
//	    have the lock once, 100 clients once, 16 clients 100 times. Kept
//	    (TestProgramsOnServers)
//	  testLockListener: listeners are told that the key was deleted, or expired. Does not apply: they are Redis'
//	    keyspace events, for which a Go client subscribes itself. Java's are told of our locks too; a lease that
//	    ends under a living holder is a deletion here (TestKeyspaceEventsTellOfAReleaseAndOfADeadHoldersLease,
//	    TestTheEndOfAFixedLeaseFreesTheLock)
//
//	RedissonLockExpirationRenewalTest, the plain lock's
//	  testLockAfterTimeout: Redis restarts empty: unlock() throws, and the next lock is renewed. Better: the
//	    holder's context ends, Unlock says ErrLost (TestAfterALossTheNextLockIsRenewed,
//	    TestAKeyThatIsGoneIsALossAtTheNextRenewal)
//	  testLockReentrantRenew: lock, lock, unlock, unlock; then another thread's lock is renewed. Kept
//	    (TestALockTakenRightAfterAnUnlockIsRenewed)
//
//	RedissonLockHeavyTest: up to 20 threads and 50 000 names: they end. Kept, as for testConcurrency
//	RedissonSpinLockTest: the same tests for a lock that polls. Does not apply: waiters poll by themselves where
//	  pub/sub is refused (TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce)
//	RedissonLockReactiveTest, RedissonLockRxTest: do not apply: goroutines
//	LockOptionsTest: the spin lock's pauses. Does not apply

// Redisson: testSubscriptionsPerConnection, testSinglePubSub. Two clients take part, since
// waiters of one client alone need no subscription.
func TestTheWaitersOfManyNamesShareTheirConnectionsAndLeaveNoChannel(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const goroutines, rounds, names = 32, 20, 5
		clients := []*testbed.Client{w.NewClient(), w.NewClient()}
		var all sync.WaitGroup
		for g := range goroutines {
			client, me := clients[g%2], w.Caller()
			all.Go(func() {
				for range rounds {
					lock := client.NewLock(fmt.Sprint("lock-", rand.N(names)))
					if !assert.NoError(t, lock.Lock(me)) {
						return
					}
					time.Sleep(rand.N(20 * time.Millisecond))
					assert.NoError(t, lock.Unlock(me))
				}
			})
		}
		all.Wait()
		for _, client := range clients {
			assert.NotEmpty(t, client.Subscribed())
		}
		assert.LessOrEqual(t, w.CurrentConnectionCount(), 3*len(clients), "one for commands, one for subscriptions, and one of a lone caller if there was one")
		time.Sleep(time.Minute)
		assert.Empty(t, testbed.LockChannels(w.Miniredis), "the connection for subscriptions is renewed")
	})
}

// Redisson: testLockUninterruptibly.
func TestALockWithAContextWithoutEndIsNotInterrupted(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient().NewLock(testbed.Key), w.NewClient().NewLock(testbed.Key)
		me, them := w.Caller(), w.Caller()
		require.NoError(t, there.Lock(them))
		ctx, interrupt := context.WithCancel(me)
		waiter := testbed.Waits(t, func() error { return here.LockFor(context.WithoutCancel(ctx), time.Hour) })
		interrupt()
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(waiter))
		require.NoError(t, there.Unlock(them))
		require.NoError(t, <-waiter)
		assert.True(t, here.IsHeld(ctx), "the owner of the context still holds the lock")
		require.NoError(t, here.Unlock(ctx))
	})
}

// Redisson: testLockListener. Redisson's ExpiredObjectListener and DeletedObjectListener are
// subscriptions to these channels.
func TestKeyspaceEventsTellOfAReleaseAndOfADeadHoldersLease(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t, "--notify-keyspace-events", "Egx"))
	deleted, expired := s.Listen(testbed.Plain, "__keyevent@0__:del"), s.Listen(testbed.Plain, "__keyevent@0__:expired")
	lock := s.NewLock()
	s.Set(testbed.Key, "a-process-that-died:1", 50*time.Millisecond)
	require.NoError(t, lock.Lock(s.Ctx))
	assert.Equal(t, []string{testbed.Key}, expired.Heard())
	assert.NotContains(t, deleted.Heard(), testbed.Key)

	require.NoError(t, lock.Unlock(s.Ctx))
	assert.Contains(t, deleted.Heard(), testbed.Key)
	assert.Empty(t, expired.Heard())
}

// Redisson: RedissonLockExpirationRenewalTest.testLockAfterTimeout, testReadLockAfterTimeout, testWriteLockAfterTimeout.
func TestAfterALossTheNextLockIsRenewed(t *testing.T) {
	testbed.EachBubble(t, map[string]func(testbed.RWClient) testbed.Locker{
		"plain": func(l testbed.RWClient) testbed.Locker { return l.NewLock(testbed.Key) },
		"read":  func(l testbed.RWClient) testbed.Locker { return l.Read },
		"write": func(l testbed.RWClient) testbed.Locker { return l.Write },
	}, func(t *testing.T, w *testbed.World, of func(testbed.RWClient) testbed.Locker) {
		lock, me := of(w.NewRWClient()), w.Caller()
		require.NoError(t, lock.Lock(me))
		w.FlushAll() // a server without persistence restarts
		time.Sleep(time.Minute)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		require.NoError(t, lock.Lock(me))
		time.Sleep(5 * time.Minute)
		for _, k := range w.Keys() {
			assert.GreaterOrEqual(t, w.Remaining(k), 19*time.Second)
		}
		require.NoError(t, lock.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

// Redisson's own tests of RReadWriteLock (4.7), in the form of those of RLock in
// the other table. Tests that begin with eachKind run over both locks of the pair.
//
//	RedissonReadWriteLockTest
//	  testReadLockExpiration: readers for 10 s and for 3 s: a writer enters after 10 s. Kept
//	    (TestAWriterWaitsForTheLongestLeaseAmongTheReaders)
//	  testReadLockIsLocked: a writer alone does not lock the read lock. Kept (TestEveryClientSeesReadersAndWriters)
//	  testReadLockExpirationRenewal: 50 readers read for longer than a lease. Kept
//	    (TestAReadersKeyIsRenewedWithTheHash, TestTheWatchdogKeepsALockForAnHour)
//	  testName: a name with braces and colons. Kept (TestANameMayHaveAnyBytes)
//	  testWriteLockExpiration: lock(10 s), nested lock(1 s): no other owner is early. Better: Redisson adds the
//	    leases, here the longest counts (TestTheLongestOpenLevelWins)
//	  testInCluster: both locks in a Cluster. Kept (every test that begins with everywhere or eachKind)
//	  testReadLockLeaseTimeout, testReadLockLeaseTimeoutDiffThreads(WRR, RRW): waiters enter when leases end, in any
//	    mixture. Kept (TestReadersOfAllClientsEnterTogetherAfterAWriter,
//	    TestAWriterWaitsForTheLongestLeaseAmongTheReaders)
//	  testWR: a read lock that is unlocked within the write lock leaves that. Kept
//	    (TestTheHashShowsModeReadersAndWriterAsRedissonDoes)
//	  testWriteRead: 20 readers enter together after a writer. Kept
//	    (TestReadersOfAllClientsEnterTogetherAfterAWriter)
//	  testWriteReadReentrancy: a downgrade keeps writers out. Better: waiting readers are notified
//	    (TestADowngradeLetsWaitingReadersInEverywhereAtOnce)
//	  testWriteLock, testMultiRead: holders and refusals in both modes. Kept
//	    (TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone)
//	  testForceUnlock: each only in its own mode. Kept (TestEachOfTheTwoLocksIsFreedByForceOnlyByItself)
//	  testReadWriteTTL: both are renewed, and the read lock goes on alone. Kept
//	    (TestAReadersKeyIsRenewedWithTheHash)
//	  testExpireRead, testExpireWrite: another enters when the lease ends; the late unlock() throws. Kept: ErrLost
//	    (TestTheEndOfAFixedLeaseFreesTheLock)
//	  testAutoExpire: a client that is shut down leaves its lock for 30 s. Better: Close releases it
//	    (TestCloseEndsEveryWaitAtOnce)
//	  testHoldCount, testReentrancy: Kept (TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked)
//	  testIsHeld*, testIsLocked*: Kept (TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld,
//	    TestEveryClientSeesReadersAndWriters)
//	  testUnlockFail, testLockUnlock: Kept (TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing,
//	    TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked)
//	  testConcurrency_*: Kept (TestProgramsOnServers)
//	  testMultiInstanceReadLockZombieCleanup: a dead client's read hold ends though others renew theirs. Kept
//	    (TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews)
//
//	RedissonLockExpirationRenewalTest
//	  testReadLockAfterTimeout, testWriteLockAfterTimeout: after a loss the next lock is renewed. Kept
//	    (TestAfterALossTheNextLockIsRenewed)

func TestAWriterWaitsForTheLongestLeaseAmongTheReaders(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		for _, leases := range [][]time.Duration{{10 * time.Second, 3 * time.Second}, {3 * time.Second, 10 * time.Second}} {
			for _, clients := range []int{1, 2} {
				l, there := w.NewRWClient(), w.NewRWClient()
				second := l
				if clients == 2 {
					second = w.NewRWClient()
				}
				require.NoError(t, l.Read.LockFor(w.Caller(), leases[0]))
				require.NoError(t, second.Read.LockFor(w.Caller(), leases[1]))
				testbed.Within(t, 9*time.Second, 10*time.Second+50*time.Millisecond, func() {
					require.NoError(t, there.Write.Do(w.Caller(), testbed.Nothing))
				})
			}
		}
	})
}

// By its Unlock, or when its lease ends.
func TestReadersOfAllClientsEnterTogetherAfterAWriter(t *testing.T) {
	testbed.EachBubble(t, map[string]time.Duration{
		"an unlock": 0, "the end of a lease": 3 * time.Second,
	}, func(t *testing.T, w *testbed.World, lease time.Duration) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.LockFor(me, lease))
		entered := make(chan time.Time, 12)
		for i := range 12 {
			x := l
			if i%4 > 0 {
				x = w.NewRWClient()
			}
			go func() {
				assert.NoError(t, testbed.ErrorOf(x.Read.Acquire(w.Ctx)))
				entered <- time.Now()
			}()
		}
		synctest.Wait()
		require.Empty(t, entered)
		began := time.Now()
		if lease == 0 {
			require.NoError(t, l.Write.Unlock(me))
		}
		for range 12 {
			assert.InDelta(t, lease, (<-entered).Sub(began), float64(lease/30))
		}
	})
}
