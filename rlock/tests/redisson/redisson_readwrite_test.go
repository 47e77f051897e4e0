package redisson_test

import (
	"testing"
	"testing/synctest"
	"time"

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
//	    TestAReadersKeyIsRenewedWithTheHash, TestTheWatchdogKeepsALockForAnHour
//	  testName                                    a name with braces and colons. Kept
//	    TestANameWithABraceIsUsedAsItIsForKeysAndChannel
//	  testWriteLockExpiration                     lock(10 s), nested lock(1 s): no other owner is early. Better: Redisson adds the
//	                                              leases, here the longest counts
//	    TestTheLongestOpenLevelWins
//	  testInCluster                               both locks in a Cluster. Kept
//	    every test that begins with everywhere or eachKind
//	  testReadLockLeaseTimeoutDiffThreadsWRR,     waiters enter when leases end, in any mixture. Kept
//	  testReadLockLeaseTimeoutDiffThreadsRRW,
//	  testReadLockLeaseTimeout
//	    TestReadersOfAllClientsEnterTogetherAfterAWriter, TestAWriterWaitsForTheLongestLeaseAmongTheReaders,
//	    driver.TestAReadersFixedLeaseEndsByTheClock
//	  testWR                                      a read lock that is unlocked within the write lock leaves that. Kept
//	    TestTheHashShowsModeReadersAndWriterAsRedissonDoes
//	  testWriteRead                               20 readers enter together after a writer. Kept
//	    TestReadersOfAllClientsEnterTogetherAfterAWriter
//	  testWriteReadReentrancy                     a downgrade keeps writers out. Better: waiting readers are notified
//	    TestADowngradeLetsWaitingReadersInEverywhereAtOnce
//	  testWriteLock, testMultiRead                holders and refusals in both modes. Kept
//	    TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone
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
//	    TestTheSectionsOfSeveralClientsNeverOverlap, TestNoWriterOverlapsReadersOrWriters
//	  testMultiInstanceReadLockZombieCleanup      a dead client's read hold ends though others renew theirs. Kept
//	    TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews
//
//	RedissonLockExpirationRenewalTest
//	  testReadLockAfterTimeout, testWriteLockAfterTimeout  after a loss the next lock is renewed. Kept
//	    TestAfterALossTheNextLockIsRenewed

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
	for name, lease := range map[string]time.Duration{"an unlock": 0, "the end of a lease": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				l, me := w.NewRWClient(), w.Caller()
				require.NoError(t, l.Write.LockFor(me, lease))
				entered := make(chan time.Time, 12)
				for i := range 12 {
					x := l
					if i%4 > 0 {
						x = w.NewRWClient()
					}
					go func() {
						_, err := x.Read.Acquire(w.Ctx)
						assert.NoError(t, err)
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
		})
	}
}
