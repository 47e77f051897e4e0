package redisson_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson's own tests of RLock and RReadWriteLock (4.7), for which rlock is better than Redisson or has no need, with the
// test here that shows it. What the others check is kept, for each kind of lock, and most of it is in rlock/tests/calls.
//
//	RedissonLockTest
//	  testSubscriptionsPerConnection, testSinglePubSub: 5 names, 32 threads, one subscribing connection of one channel: no
//	    error but timeouts. Better: no error at all, however many channels (pubsub.TestTenThousandChannelsShareAConnection)
//	  testRemainTimeToLive: -2 when free. Here 0 (TestTTLIsTheLeaseWhileHeldAndZeroWhenFree)
//	  testLockUninterruptibly: an interrupt does not end lock(lease). A choice: the context says whether a call may be
//	    interrupted (TestACancelledLockReturnsTheContextsErrorAndHoldsNothing)
//	  testForceUnlock: it is free afterwards. Better: the holder learns it
//	    (TestForceUnlockFreesTheLockAtAnyDepthAndTheHolderLearnsIt)
//	  testExpire, testExpireRead, testExpireWrite: the late unlock() throws. Better: it says ErrLost, and the holder's
//	    context has ended before (TestTheEndOfAFixedLeaseFreesTheLock)
//	  testAutoExpire: a client that is shut down leaves its lock for up to 30 s. Better: Close releases it
//	    (TestCloseEndsEveryWaitAtOnce)
//	  testInCluster, testLockFailoverInCluster: better: through failovers and moved slots
//	    (TestAHoldAndItsWaitersOutliveAFailoverAndAMoveOfTheirSlot)
//	  testLockListener: listeners are told that the key was deleted, or expired. Does not apply: they are Redis' keyspace
//	    events, for which a Go client subscribes itself. A lease that ends under a living holder is a deletion here
//
//	RedissonReadWriteLockTest
//	  testWriteLockExpiration: better: Redisson adds the leases, here the longest counts (TestTheLongestOpenLevelWins)
//	  testWriteReadReentrancy: a downgrade keeps writers out. Better: waiting readers are notified
//	    (TestADowngradeLetsWaitingReadersInEverywhereAtOnce)
//
//	RedissonLockExpirationRenewalTest
//	  testLockAfterTimeout and those of readers and writers: Redis restarts empty, and unlock() throws. Better: the holder's
//	    context ends (TestAfterALossTheNextLockIsRenewed, TestAKeyThatIsGoneIsALossAtTheNextRenewal)
//
//	RedissonSpinLockTest, LockOptionsTest: do not apply: waiters poll by themselves where pub/sub is refused
//	  (TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce)
//	RedissonLockReactiveTest, RedissonLockRxTest: do not apply: goroutines

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
