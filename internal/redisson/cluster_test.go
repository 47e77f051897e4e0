package redisson_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// The same between Java and Go in a Cluster, where there are two families of commands for
// pub/sub: users of the one do not wake users of the other. Tests without messages run with
// the default only.
func TestInAClusterBothSidesChooseTheSamePubSub(t *testing.T) {
	with(t, redistest.Cluster(t), versions, setting{}, func(s *scene) {
		s.counts = []string{"SHARDNUMSUB"}
		s.play("lock.txt", redisson.Plain, redisson.Plain)
		s.play("waits.txt", redisson.Plain, redisson.Plain)
		s.crowd(4, time.Second, redisson.Plain)

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
				s.play("waits.txt", redisson.Plain, redisson.Plain)
				s.crowd(4, time.Second, redisson.Plain)
			})
		}
	})
}

func TestInAClusterFencedAndReadWriteLocksAreTheSameToBothSides(t *testing.T) {
	with(t, redistest.Cluster(t), versions, setting{}, func(s *scene) {
		s.play("fenced.txt", redisson.Fenced, redisson.Fenced)
		s.play("readwrite.txt", redisson.Write, redisson.Write)
	})
}

// What a fleet gets that is configured wrong: neither side hears the
// other. The locks exclude all the same, and each waiter looks when it would without
// any message.
func TestWithoutOneFamilyOfPubSubTheLockStillExcludes(t *testing.T) {
	wrong := setting{lease: shortLease, sharding: redisson.ShardingOff, pubSub: rlock.PubSubSharded}
	with(t, redistest.Cluster(t), versions[len(versions)-1:], wrong, func(s *scene) {
		s.play("lock.txt", redisson.Plain, redisson.Plain)
		for _, first := range []string{"go", "java"} {
			s.plays(s.fresh(), redisson.Plain, redisson.Plain, first, "A lock", "B waits lock", "A unlock", "B has it within 20s", "B unlock")
		}
	})
}
