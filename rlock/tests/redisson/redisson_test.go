// Package redisson_test is about locks that clients of Redisson hold, wait for and leave, and has a list of
// Redisson's own tests of locks. The real Redisson is in package internal/redisson; what the scripts write for it
// is compared with the model of the scripts in package wire.
package redisson_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson's own tests of RLock and RReadWriteLock (4.7), for which rlock is better than Redisson
// or has no need, with the test here that shows it. What the others check is kept, for each kind of
// lock, and most of it is in rlock/tests/calls.
//
//	RedissonLockTest
//	  testSubscriptionsPerConnection, testSinglePubSub: 5 names, 32 threads, one subscribing connection of one channel: no
//	    error but timeouts. Better: no error at all, however many channels (pubsub.TestTenThousandChannelsShareAConnection)
//	  testRemainTimeToLive: -2 when free. Here 0
//	    (TestALockKeepsEveryOtherOwnerOutUntilItIsUnlocked)
//	  testLockUninterruptibly: an interrupt does not end lock(lease). A choice: the context says whether a call may be
//	    interrupted (TestACancelledLockReturnsTheContextsErrorAndHoldsNothing)
//	  testForceUnlock: it is free afterwards. Better: the holder learns it
//	    (stories/force.txt)
//	  testExpire, testExpireRead, testExpireWrite: the late unlock() throws. Better: it says ErrLost, and the holder's
//	    context has ended before (stories/owners.txt)
//	  testAutoExpire: a client that is shut down leaves its lock for up to 30 s. Better: Close releases it
//	    (stories/close.txt)
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

func TestMain(m *testing.M) { testbed.Main(m) }

// Other programs may have changed the key: Redisson's other locks of the same name, other versions of it,
// operators with redis-cli.
func TestWhateverItsFieldsAForeignLockKeepsUsOutAndIsLeftAsItIs(t *testing.T) {
	const uuid = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11"
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		for what, fields := range map[string][]string{
			"a thread":                  {uuid + ":7", "1"},
			"a thread three deep":       {uuid + ":7", "3"},
			"a transaction":             {uuid + ":7:c0ffee", "1"},
			"a write lock":              {"mode", "write", uuid + ":7:write", "2"},
			"two readers":               {"mode", "read", uuid + ":7", "1", uuid + ":8", "1"},
			"a UUID with our goroutine": {fmt.Sprint(uuid, ":", contract.GoroutineID()), "1"},
		} {
			s.Number("HSET", testbed.Key, fields...)
			s.Number("PEXPIRE", testbed.Key, fmt.Sprint(time.Hour.Milliseconds()))
			before, err := s.Do("HGETALL", testbed.Key).AsStrMap()
			require.NoError(t, err)

			taken, err := lock.TryLock(s.Ctx)
			require.NoError(t, err, what)
			assert.False(t, taken, what)
			assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld, what)
			assert.Zero(t, lock.HoldCount(s.Ctx), what)
			assert.True(t, testbed.IsLocked(t, s.Ctx, lock), what)

			after, err := s.Do("HGETALL", testbed.Key).AsStrMap()
			require.NoError(t, err)
			assert.Equal(t, before, after, what)
			assert.Greater(t, s.Number("PTTL", testbed.Key), (time.Hour - testbed.Hang).Milliseconds(), what)
			s.Number("DEL", testbed.Key)
		}
	})
}

// A hash may say that a reader has the lock a hundred million times. A release does not look as
// many keys up.
func TestAReaderThatReadsTooOftenBlocksNoServer(t *testing.T) {
	const java = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		lock := s.NewClient().NewReadWriteLock(testbed.Key).Read()
		s.Number("HSET", testbed.Key, "mode", "read", java, "100000000")
		s.Number("PEXPIRE", testbed.Key, "3600000")
		require.NoError(t, lock.Lock(s.Ctx))
		calls := server.CountCalls(t, func() { require.NoError(t, lock.Unlock(s.Ctx)) })
		assert.Less(t, calls["pttl"]+calls["del"], int64(1100))
		assert.EqualValues(t, 1, s.Number("HEXISTS", testbed.Key, java), "it goes on reading")
		assert.Positive(t, s.Number("PTTL", testbed.Key))
		s.Number("DEL", testbed.Key)
	})
}

// A subscriber has come before the ticket. The next turn would come at once only if this one was
// used, for which a busy machine may be too slow.
func TestALockIsLeftToASubscriberOfRedissonBeforeATicketThatCameLater(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewLock(testbed.Key), s.NewClient().NewLock(testbed.Key)
		require.NoError(t, here.Lock(s.Ctx))
		l := s.Listen(s.Family(), testbed.Channel)
		waiter := testbed.Start(func() error { return there.Do(s.Ctx, testbed.Nothing) })
		s.AwaitWaiters(1, testbed.Key)
		require.Empty(t, l.Heard())
		require.NoError(t, here.Unlock(s.Ctx))
		require.NoError(t, redistest.Await(t, waiter))
		require.Equal(t, []string{"00", "00"}, l.Heard(), "that their turn begins, and that the lock is free again")
	})
}

// The foreigner leaves the lock free for no longer than ours take that listen to it. Two processes
// that were killed cost nothing, and one that stands still the claim after which it is known to be
// dead, however many waiters it has.
func TestAWaiterBehindTheDeadHasTheLockWithinAClaimThoughRedissonNeverPauses(t *testing.T) {
	locks := testbed.LocksOf("plain", "fenced", "fair", "write")
	type end struct {
		kind      string
		processes int
		ends      func(p *testbed.Client)
		most      time.Duration
	}
	ends := make(map[string]end)
	for kind := range locks {
		ends[kind+", killed"] = end{kind, 2, (*testbed.Client).Die, 2 * time.Second}
		ends[kind+", two stopped"] = end{kind, 2, func(p *testbed.Client) { p.Net.Rule(network.Silence) }, 9 * time.Second}
		ends[kind+", stopped"] = end{kind, 1, func(p *testbed.Client) { p.Net.Rule(network.Silence) }, 2*time.Second + 200*time.Millisecond}
	}
	testbed.EachBubble(t, ends, func(t *testing.T, w *testbed.World, test end) {
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		if test.kind == "write" {
			f = w.NewForeigner(testbed.RWChannel, "mode", "write", testbed.ForeignOwner+":write", "1")
		}
		f.Take()
		var dead []*testbed.Client
		for range test.processes {
			p := w.NewClient()
			for range 2 {
				testbed.Waits(t, func() error { return locks[test.kind](p.Client).Lock(w.Caller()) })
			}
			dead = append(dead, p)
		}
		for _, p := range dead {
			test.ends(p)
		}
		lock, began := locks[test.kind](w.NewClient().Client), time.Now()
		waiter := testbed.Waits(t, func() error { return lock.Do(w.Caller(), testbed.Nothing) })
		f.NeverPauses(func() bool { return len(waiter) > 0 || time.Since(began) > 30*time.Second })
		require.NoError(t, <-waiter)
		assert.Less(t, time.Since(began), test.most)
		for _, p := range dead {
			p.Net.Heal()
		}
	})
}
