package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// The same between Java and Go in a Cluster, where there are two families of commands for
// pub/sub: users of the one do not wake users of the other. Tests without messages run with
// the default only.
func TestInAClusterBothSidesChooseTheSamePubSub(t *testing.T) {
	withBothInACluster(t, setting{}, func(s *scene) {
		s.counts = []string{"SHARDNUMSUB"}
		s.eachWay(func(s *scene, first, second side) {
			exclusion(s, first, second)
			nesting(s, first, second)
			views(s, first, second)
			messages(s, first, second)
		})
		s.run("limits", func(s *scene) { s.eachWayAtOnce(limits) })
		smallCrowd(s)

		if s.setting.version != versions[len(versions)-1] {
			return // what both are told does not depend on the version
		}
		for _, mode := range []struct {
			sharding redisson.Sharding
			pubSub   rlock.PubSub
			counts   string
		}{
			{redisson.ShardingOn, rlock.PubSubSharded, "SHARDNUMSUB"},
			{redisson.ShardingOff, rlock.PubSubPlain, "NUMSUB"},
		} {
			s.run(string(mode.sharding), func(s *scene) {
				c := s.setting
				c.sharding, c.pubSub = mode.sharding, mode.pubSub
				s = stage(s.t, s.Server, c)
				s.counts = []string{mode.counts}
				s.eachWay(messages)
				smallCrowd(s)
			})
		}
	})
}

func messages(s *scene, first, second side) {
	for range 5 { // in as many slots
		assert.Less(s.t, wakeUp(s, first, second, s.fresh()), fallback)
	}
	force(s, first, second)
}

func smallCrowd(s *scene) {
	java, golang := crowd(s, 4, time.Second)
	assert.Positive(s.t, java)
	assert.Positive(s.t, golang)
}

func TestInAClusterFencedAndReadWriteLocksAreTheSameToBothSides(t *testing.T) {
	withBothAtOnceInACluster(t, setting{}, func(s *scene) {
		s.run("fenced", func(s *scene) { alternating(s.of(redisson.Fenced)) })
		s.of(redisson.Write).eachOwnerFirst(func(s *scene, first, second couple) {
			reading(s, first, second)
			downgrading(s, first, second)
		})
	})
}

// What a fleet gets that is configured wrong: neither side hears the
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
