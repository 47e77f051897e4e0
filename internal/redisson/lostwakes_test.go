package redisson_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// sleepsOn asserts that Redisson has not woken its waiter, though the lock is free.
func (s *scene) sleepsOn(java redisson.Thread, waiter *call) {
	s.t.Helper()
	asleep, err := java.IsAsleep()
	require.NoError(s.t, err)
	select {
	case <-waiter.done:
		assert.Fail(s.t, "Redisson looks again as well")
	default:
		assert.True(s.t, asleep, "Redisson looks again as well")
	}
}

// occupy gives the lock to an owner without a client. Lease 0: the key does not expire.
func (s *scene) occupy(lock string, lease time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.do("HSET", lock, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1").Error())
	if lease > 0 {
		require.NoError(s.t, s.do("PEXPIRE", lock, fmt.Sprint(lease.Milliseconds())).Error())
	}
}

// No defect, but what a fleet gets that is configured wrong: neither side hears the
// other. The locks exclude all the same, and each waiter looks when it would without
// any message.
func TestWithoutOneFamilyOfPubSubTheLockStillExcludes(t *testing.T) {
	wrong := setting{lease: shortLease, sharding: redisson.ShardingOff, pubSub: rlock.PubSubSharded}
	withNewestInACluster(t, wrong, func(s *scene) {
		s.run("exclusion", func(s *scene) { s.eachWay(exclusion) })
		s.eachWayAtOnce(func(s *scene, first, second side) {
			lock := s.fresh()
			require.NoError(s.t, first.Lock(lock, 0))
			waiter := s.start(func() error { return second.Lock(lock, 0) })
			s.awaitWaiter(lock)
			unlocked := time.Now()
			require.NoError(s.t, first.Unlock(lock))
			s.t.Logf("at a lease of %v a waiter has the lock after %v", shortLease, waiter.succeeds().Sub(unlocked))
			require.NoError(s.t, second.Unlock(lock))
		})
	})
}

// A message that is published while Redisson's subscription is being renewed is
// lost, and the waiter sleeps until the holder's lease is over.
func lostMessage(s *scene) {
	onlyRedissonSleeps(s, time.Hour, func(ours, theirs string) {
		b := s.outside.B
		for _, reply := range s.outside.DoMulti(s.ctx, b().Multi().Build(),
			b().ClientKill().TypePubsub().Build(),
			b().Del().Key(ours, theirs).Build(),
			b().Publish().Channel(s.channelOf(ours)).Message("0").Build(),
			b().Publish().Channel(s.channelOf(theirs)).Message("0").Build(),
			b().Exec().Build()) {
			require.NoError(s.t, reply.Error())
		}
	})
}

// A key that was made one that does not expire is waited for by Redisson until a
// message comes.
func keyWithoutLease(s *scene) {
	onlyRedissonSleeps(s, 0, func(ours, theirs string) {
		require.NoError(s.t, s.do("DEL", theirs).Error())
		require.NoError(s.t, s.do("DEL", ours).Error())
	})
}

// onlyRedissonSleeps frees a lock for which a goroutine waits, and one for which a thread waits. The thread sleeps until a
// message comes.
func onlyRedissonSleeps(s *scene, lease time.Duration, free func(ours, theirs string)) {
	golang, java := s.golang(), s.java.Thread("one")
	ours, theirs := s.fresh(), s.fresh()
	s.occupy(ours, lease)
	s.occupy(theirs, lease)
	ourWait := s.start(func() error { return golang.Lock(ours, 0) })
	theirWait := s.start(func() error { return java.Lock(theirs, 0) })
	s.awaitAsleep(golang, ours)
	s.awaitAsleep(java, theirs)

	freed := time.Now()
	free(ours, theirs)
	s.t.Logf("from the unlock to the waiter: rlock %v", ourWait.succeeds().Sub(freed))
	s.awaitWaiter(theirs)
	s.sleepsOn(java, theirWait)
	require.NoError(s.t, s.do("PUBLISH", s.channelOf(theirs), "0").Error())
	theirWait.succeeds()
	require.NoError(s.t, golang.Unlock(ours))
	require.NoError(s.t, java.Unlock(theirs))
}

// A client of Redisson has at most 50 connections for subscriptions, with five
// channels each. To wait for one more lock is an error.
func manyLocks(s *scene) {
	const channels, more = 50 * 5, 10
	var ours, theirs []*call
	var locks []string
	for i := range channels + more {
		lock, javas := s.fresh(), s.fresh()
		locks = append(locks, lock)
		s.occupy(lock, time.Hour)
		s.occupy(javas, time.Hour)
		golang, java := s.golang(), s.java.Thread(fmt.Sprint(i))
		ours = append(ours, s.start(func() error { return golang.Lock(lock, 0) }))
		theirs = append(theirs, s.start(func() error { return java.Lock(javas, 0) }))
	}
	refused := func() (n int, err error) {
		for _, c := range theirs {
			select {
			case <-c.done:
				n, err = n+1, c.err
			default:
			}
		}
		return n, err
	}
	require.Eventually(s.t, func() bool { n, _ := refused(); return n >= more }, hang, 10*time.Millisecond)
	n, err := refused()
	s.t.Logf("Redisson refuses %d of %d: %v", n, len(theirs), err)
	for _, lock := range locks {
		require.NoError(s.t, s.do("DEL", lock).Error())
		require.NoError(s.t, s.do("PUBLISH", s.channelOf(lock), "0").Error())
	}
	for _, c := range ours {
		c.succeeds()
	}
}

// Redisson's subscription to a sharded channel does not come back when its slot
// has moved.
func movedSlot(s *scene) {
	golang, java := s.golang(), s.java.Thread("one")
	lock := s.fresh()
	ours, theirs := "{"+lock+"}:ours", "{"+lock+"}:theirs"
	s.occupy(ours, time.Hour)
	s.occupy(theirs, time.Hour)
	ourWait := s.start(func() error { return golang.Lock(ours, 0) })
	theirWait := s.start(func() error { return java.LockInterruptibly(theirs, 0) })
	s.awaitAsleep(golang, ours)
	s.awaitAsleep(java, theirs)
	s.MoveSlot(lock)
	freed := time.Now()
	require.NoError(s.t, s.do("DEL", theirs, ours).Error())
	require.NoError(s.t, s.do("SPUBLISH", s.channelOf(theirs), "0").Error())
	require.NoError(s.t, s.do("SPUBLISH", s.channelOf(ours), "0").Error())
	s.t.Logf("from the unlock to the waiter: rlock %v", ourWait.succeeds().Sub(freed))
	require.NoError(s.t, s.do("SPUBLISH", s.channelOf(theirs), "0").Error())
	s.sleepsOn(java, theirWait)
	require.NoError(s.t, java.Interrupt())
	require.Error(s.t, theirWait.fails())
	require.NoError(s.t, golang.Unlock(ours))
}
