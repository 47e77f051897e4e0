package redisson_test

import ()

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
//	    context has ended before (stories/owners.txt)
//	  testAutoExpire: a client that is shut down leaves its lock for up to 30 s. Better: Close releases it
//	    (TestCloseEndsEveryWaitAtOnce)
//	  testInCluster, testLockFailoverInCluster: better: through failovers and moved slots
//	    (TestAHoldAndItsWaitersOutliveAFailoverAndAMoveOfTheirSlot)
//	  testLockListener: listeners are told that the key was deleted, or expired. Does not apply: they are Redis' keyspace
//	    events, for which a Go client subscribes itself. A lease that ends under a living holder is a deletion here
//
//	RedissonReadWriteLockTest
//	  testWriteLockExpiration: better: Redisson adds the leases, here the longest counts (stories/owners.txt)
//	  testWriteReadReentrancy: a downgrade keeps writers out. Better: waiting readers are notified
//	    (stories/readers.txt)
//
//	RedissonLockExpirationRenewalTest
//	  testLockAfterTimeout and those of readers and writers: Redis restarts empty, and unlock() throws. Better: the holder's
//	    context ends (stories/readers.txt, stories/losses.txt)
//
//	RedissonSpinLockTest, LockOptionsTest: do not apply: waiters poll by themselves where pub/sub is refused
//	  (TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce)
//	RedissonLockReactiveTest, RedissonLockRxTest: do not apply: goroutines
