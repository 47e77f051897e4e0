package redisson_test

import (
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

// Redisson's own tests of RReadWriteLock (4.7), in the form of those of RLock in
// redisson_lock_test.go. Tests that begin with eachKind run over both locks of the pair.
//
//	RedissonReadWriteLockTest
//	  testReadLockExpiration                      readers for 10 s and for 3 s: a writer enters after 10 s. Kept
//	    TestAWriterWaitsForTheLongestLeaseAmongTheReaders
//	  testReadLockIsLocked                        a writer alone does not lock the read lock. Kept
//	    TestEveryClientSeesReadersAndWriters
//	  testReadLockExpirationRenewal               50 readers read for longer than a lease. Kept
//	    TestFiftyReadersReadForLongerThanALease
//	  testName                                    a name with braces and colons. Kept
//	    TestANameWithABraceIsUsedAsItIsForKeysAndChannel
//	  testWriteLockExpiration                     lock(10 s), nested lock(1 s): no other owner is early. Better: Redisson adds the
//	                                              leases, here the longest counts
//	    TestNestedWriteLeasesAreNotAdded
//	  testInCluster                               both locks in a Cluster. Kept
//	    every test that begins with everywhere or eachKind
//	  testReadLockLeaseTimeoutDiffThreadsWRR,     waiters enter when leases end, in any mixture. Kept
//	  testReadLockLeaseTimeoutDiffThreadsRRW,
//	  testReadLockLeaseTimeout
//	    TestReadersEnterTogetherWhenAWritersLeaseEnds, TestAWriterWaitsForTheLongestLeaseAmongTheReaders,
//	    TestTheFixedLeaseOfOneReaderEndsForItAlone
//	  testWR                                      a read lock that is unlocked within the write lock leaves that. Kept
//	    TestTheWriterMayReadAndBothLocksNest
//	  testWriteRead                               20 readers enter together after a writer. Kept
//	    TestReadersOfAllClientsEnterTogetherAfterAWriter
//	  testWriteReadReentrancy                     a downgrade keeps writers out. Better: waiting readers are notified
//	    TestADowngradeLetsWaitingReadersInEverywhereAtOnce
//	  testWriteLock, testMultiRead                holders and refusals in both modes. Kept
//	    TestReadersOfAllClientsReadAtOnceAndKeepWritersOut, TestAWriterExcludesReadersAndWriters
//	  testForceUnlock                             each only in its own mode. Kept
//	    TestEachOfTheTwoLocksIsFreedByForceOnlyByItself
//	  testReadWriteTTL                            both are renewed, and the read lock goes on alone. Kept
//	    TestAReadersKeyIsRenewedWithTheHash
//	  testExpireRead, testExpireWrite             another enters when the lease ends; the late unlock() throws. Kept: ErrLost
//	    TestALeaseThatEndsFreesTheLockAndIsTheHoldersLoss, TestTheEndOfAFixedLeaseFreesTheLock
//	  testAutoExpire                              a client that is shut down leaves its lock for 30 s. Better: Close releases it
//	    TestCloseReleasesTheReadersAndTheirWaitersAreWoken, TestALockThatCloseReleasesIsGrantedAtOnce
//	  testHoldCount, testReentrancy               Kept
//	    TestTheOwnerLocksAgainWithoutWaitingAndUnlocksAsOften
//	  testIsHeld*, testIsLocked*                  Kept
//	    TestEveryClientSeesThatItIsLockedAndOnlyTheOwnerThatItIsHeld, TestEveryClientSeesReadersAndWriters
//	  testUnlockFail, testLockUnlock              Kept
//	    TestAnUnlockByAnotherOwnerIsErrNotHeldAndChangesNothing, TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked
//	  testConcurrency_*                           Kept
//	    TestTheSectionsOfOneClientNeverOverlap and its like, TestNoWriterOverlapsReadersOrWriters
//	  testMultiInstanceReadLockZombieCleanup      a dead client's read hold ends though others renew theirs. Kept
//	    TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews
//
//	RedissonLockExpirationRenewalTest
//	  testReadLockAfterTimeout, testWriteLockAfterTimeout  after a loss the next lock is renewed. Kept
//	    TestAfterALossTheNextReaderAndWriterAreRenewed

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

func TestFiftyReadersReadForLongerThanALease(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		there := w.NewRWClient()
		var all sync.WaitGroup
		for range 5 {
			l := w.NewRWClient()
			for range 10 {
				reader := w.Caller()
				all.Go(func() {
					assert.NoError(t, l.Read.Lock(reader))
					time.Sleep(5 * time.Minute)
					assert.NoError(t, l.Read.Unlock(reader))
				})
			}
		}
		time.Sleep(time.Minute)
		writer := testbed.Start(func() error { return there.Write.Do(w.Caller(), testbed.Nothing) })
		for range 200 {
			time.Sleep(time.Second)
			require.True(t, testbed.Pending(writer))
		}
		all.Wait()
		require.NoError(t, <-writer)
		assert.Empty(t, w.Keys())
	})
}

func TestNestedWriteLeasesAreNotAdded(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.LockFor(me, 10*time.Second))
		require.NoError(t, l.Write.LockFor(me, time.Second))
		testbed.Within(t, 9*time.Second, 10*time.Second+50*time.Millisecond, func() {
			require.NoError(t, there.Write.Do(w.Caller(), testbed.Nothing))
		})
		for range 2 {
			require.ErrorIs(t, l.Write.Unlock(me), rlock.ErrLost)
		}
	})
}

func TestReadersEnterTogetherWhenAWritersLeaseEnds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there := w.NewRWClient(), w.NewRWClient()
		require.NoError(t, l.Write.LockFor(w.Caller(), 3*time.Second))
		var all sync.WaitGroup
		for range 10 {
			for _, x := range []testbed.RWClient{l, there} {
				reader := w.Caller()
				all.Go(func() {
					testbed.Within(t, 2900*time.Millisecond, 3050*time.Millisecond, func() { assert.NoError(t, x.Read.Lock(reader)) })
					time.Sleep(time.Minute)
					assert.NoError(t, x.Read.Unlock(reader))
				})
			}
		}
		all.Wait()
		assert.Empty(t, w.Keys())
	})
}

func TestReadersOfAllClientsEnterTogetherAfterAWriter(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		entered := make(chan time.Time, 20)
		var all sync.WaitGroup
		for i := range 20 {
			reader, x := w.Caller(), l
			if i%4 > 0 {
				x = w.NewRWClient()
			}
			all.Go(func() {
				assert.NoError(t, x.Read.Lock(reader))
				entered <- time.Now()
				time.Sleep(time.Minute)
				assert.NoError(t, x.Read.Unlock(reader))
			})
		}
		synctest.Wait()
		require.Empty(t, entered)
		unlocked := time.Now()
		require.NoError(t, l.Write.Unlock(me))
		for range 20 {
			assert.Zero(t, (<-entered).Sub(unlocked))
		}
		all.Wait()
		assert.Empty(t, w.Keys())
	})
}

func TestAfterALossTheNextReaderAndWriterAreRenewed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		for _, lock := range []testbed.Locker{l.Read, l.Write} {
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
		}
	})
}
