package redisson_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// unneeded is the lease of a holder that soon needs it no more: who is not woken waits
// for its end. Who waits for longer than unwoken has not been.
const (
	unneeded = 5 * time.Second
	unwoken  = time.Second
)

// A message that is published while Redisson's subscription is being renewed is
// lost, and the waiter sleeps until the holder's lease is over.
func TestAMessageThatIsLostWithItsConnectionKeepsNobodyWaiting(t *testing.T) {
	withBoth(t, setting{}, func(s *scene) {
		golang, java := s.golang(), s.java.Thread("one")
		ours, theirs := s.fresh(), s.fresh()
		s.occupy(ours, time.Hour)
		s.occupy(theirs, unneeded)
		ourWait := s.start(func() error { return golang.Lock(ours, 0) })
		theirWait := s.start(func() error { return java.Lock(theirs, 0) })
		s.awaitAsleep(s.outside, 0, 2)

		b := s.outside.B
		freed := time.Now()
		for _, reply := range s.outside.DoMulti(s.ctx, b().Multi().Build(),
			b().ClientKill().TypePubsub().Build(),
			b().Del().Key(ours, theirs).Build(),
			b().Publish().Channel(channelOf(ours)).Message("0").Build(),
			b().Publish().Channel(channelOf(theirs)).Message("0").Build(),
			b().Exec().Build()) {
			require.NoError(s.t, reply.Error())
		}
		took, theirsTook := ourWait.succeeds().Sub(freed), theirWait.succeeds().Sub(freed)
		s.t.Logf("from the unlock to the waiter: rlock %v, Redisson %v", took, theirsTook)
		assert.Greater(s.t, theirsTook, unwoken)
		require.NoError(s.t, golang.Unlock(ours))
		require.NoError(s.t, java.Unlock(theirs))
	})
}

// denied returns how often the node has answered that a lock is held.
func (s *scene) denied(node rueidis.Client) (times int) {
	s.t.Helper()
	stats, err := node.Do(s.ctx, node.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(s.t, err)
	if _, after, found := strings.Cut(stats, "cmdstat_pttl:calls="); found {
		_, err = fmt.Sscanf(after, "%d,", &times)
		require.NoError(s.t, err)
	}
	return times
}

func (s *scene) deniedAnywhere() (times int) {
	s.t.Helper()
	for _, node := range s.nodes {
		times += s.denied(node)
	}
	return times
}

// awaitAsleep returns when so many clients wait: each was denied the lock, has
// subscribed, and was denied it once more.
func (s *scene) awaitAsleep(node rueidis.Client, before, clients int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.denied(node) >= before+2*clients }, hang, time.Millisecond)
}

func channelOf(lock string) string { return "redisson_lock__channel:{" + lock + "}" }

// occupy makes the lock that of somebody who is no client at all. Lease 0: the key
// does not expire.
func (s *scene) occupy(lock string, lease time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.do("HSET", lock, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1").Error())
	if lease > 0 {
		require.NoError(s.t, s.do("PEXPIRE", lock, fmt.Sprint(lease.Milliseconds())).Error())
	}
}

// A key that was made one that does not expire is waited for by Redisson until a
// message comes.
func TestAKeyWithoutALeaseIsLookedAtAgain(t *testing.T) {
	withBoth(t, setting{}, func(s *scene) {
		golang, java := s.golang(), s.java.Thread("one")
		ours, theirs := s.fresh(), s.fresh()
		s.occupy(ours, 0)
		s.occupy(theirs, 0)
		ourWait := s.start(func() error { return golang.Lock(ours, 0) })
		theirWait := s.start(func() error { return java.Lock(theirs, 0) })
		s.awaitAsleep(s.outside, 0, 2)
		require.NoError(s.t, s.do("DEL", theirs).Error())
		require.NoError(s.t, s.do("DEL", ours).Error())
		ourWait.succeeds()
		select {
		case <-theirWait.done:
			assert.Fail(s.t, "Redisson looks again as well")
		default:
		}
		require.NoError(s.t, s.do("PUBLISH", channelOf(theirs), "0").Error())
		theirWait.succeeds()
		require.NoError(s.t, golang.Unlock(ours))
		require.NoError(s.t, java.Unlock(theirs))
	})
}

// A client of Redisson has at most 50 connections for subscriptions, with five
// channels each. To wait for one more lock is an error.
func TestAsManyLocksMayBeWaitedForAsThereAre(t *testing.T) {
	withBoth(t, setting{}, func(s *scene) {
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
			require.NoError(s.t, s.do("PUBLISH", channelOf(lock), "0").Error())
		}
		for _, c := range ours {
			c.succeeds()
		}
	})
}

// Redisson's subscription to a sharded channel does not come back when its slot
// has moved.
func TestAWaiterWhoseSlotMovesIsWoken(t *testing.T) {
	withBothInACluster(t, setting{}, func(s *scene) {
		golang, java := s.golang(), s.java.Thread("one")
		wait := func(who side, lease time.Duration) (took time.Duration) {
			lock := s.fresh()
			s.occupy(lock, lease)
			node := s.Primary(lock).Client(s.t)
			before := s.denied(node)
			waiter := s.start(func() error { return who.Lock(lock, 0) })
			s.awaitAsleep(node, before, 1)
			s.MoveSlot(lock)
			freed := time.Now()
			require.NoError(s.t, s.do("DEL", lock).Error())
			require.NoError(s.t, s.do("SPUBLISH", channelOf(lock), "0").Error())
			took = waiter.succeeds().Sub(freed)
			require.NoError(s.t, who.Unlock(lock))
			return took
		}
		ours, theirs := wait(golang, time.Hour), wait(java, unneeded)
		s.t.Logf("from the unlock to the waiter: rlock %v, Redisson %v", ours, theirs)
		assert.Greater(s.t, theirs, unwoken)
	})
}

// No defect, but what a fleet gets that is configured wrong: neither side hears the
// other. The locks exclude all the same, and each waiter looks when it would without
// any message.
func TestWithoutOneFamilyOfPubSubTheLockStillExcludes(t *testing.T) {
	wrong := setting{lease: shortLease, sharding: redisson.ShardingOff, pubSub: rlock.PubSubSharded}
	withBothAtOnceInACluster(t, wrong, func(s *scene) {
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
