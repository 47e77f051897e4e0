package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// The same between Java and Go in a Cluster, where there are two families of
// commands for pub/sub: who uses the one does not wake who uses the other.
func TestInAClusterBothSidesChooseTheSamePubSub(t *testing.T) {
	withBothInACluster(t, setting{}, func(s *scene) {
		for _, mode := range []struct {
			sharding redisson.Sharding
			pubSub   rlock.PubSub
			counts   string
		}{
			{redisson.ShardingAuto, rlock.PubSubAuto, "SHARDNUMSUB"},
			{redisson.ShardingOn, rlock.PubSubSharded, "SHARDNUMSUB"},
			{redisson.ShardingOff, rlock.PubSubPlain, "NUMSUB"},
		} {
			s.t.Run(string(mode.sharding), func(t *testing.T) {
				c := s.setting
				c.sharding, c.pubSub = mode.sharding, mode.pubSub
				s := stage(t, s.Server, c)
				s.counts = []string{mode.counts}
				s.eachWay(func(s *scene, first, second side) {
					for range 5 { // in as many slots
						assert.Less(s.t, wakeUp(s, first, second, s.fresh()), fallback)
					}
					exclusion(s, first, second)
					nesting(s, first, second)
					views(s, first, second)
					limits(s, first, second)
					force(s, first, second)
				})
				java, golang := crowd(s, 4, 2*time.Second)
				assert.Positive(s.t, java)
				assert.Positive(s.t, golang)
			})
		}
	})
}

func TestInAClusterTheWatchdogKeepsTheOtherOut(t *testing.T) {
	withBothInACluster(t, setting{lease: keptLease}, bothKeep)
}

// A mixed choice still excludes; it is waited out.
func TestInAClusterADifferentPubSubOnlyCostsTime(t *testing.T) {
	withBothInACluster(t, setting{sharding: redisson.ShardingOff, pubSub: rlock.PubSubSharded, lease: shortLease}, func(s *scene) {
		s.eachWay(func(s *scene, first, second side) {
			lock := s.fresh()
			require.NoError(s.t, first.Lock(lock, 0))
			ok, err := second.TryLock(lock, 0, 0)
			require.NoError(s.t, err)
			assert.False(s.t, ok)
			s.t.Logf("without a message, at a lease of %v, a waiter has the lock after %v", shortLease, wakeUp(s, first, second, s.fresh()))
			require.NoError(s.t, first.Unlock(lock))
		})
	})
}
