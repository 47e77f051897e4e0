package redisson_test

import (
	"testing"

	jvm "github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// The synchronizers of both languages wait for each other.
func TestSynchronizersAreSharedWithRedisson(t *testing.T) {
	withOldAndNew(t, setting{}, func(s *scene) {
		s.play("synchronizers.txt", jvm.Plain, jvm.Plain)
		s.play("permits.txt", jvm.Plain, jvm.Plain)
	})
}

// Redisson's NameMapper puts a prefix before each name, as Config.Prefix does. The oldest version names the
// leases of permits after the name without it.
func TestSynchronizersBehindANameMapperAreShared(t *testing.T) {
	withOldAndNew(t, setting{prefix: "app:"}, func(s *scene) {
		s.play("synchronizers.txt", jvm.Plain, jvm.Plain)
		if s.setting.version != jvm.Oldest {
			s.play("permits.txt", jvm.Plain, jvm.Plain)
		}
	})
}

// In a Cluster both sides choose sharded channels, or are told to have plain ones, which the oldest version
// always has.
func TestSynchronizersAreSharedInACluster(t *testing.T) {
	t.Parallel()
	server := redistest.Cluster(t)
	for title, c := range map[string]setting{
		"4.7.0 chooses": {version: jvm.V4},
		"4.7.0 plain":   {version: jvm.V4, sharding: jvm.ShardingOff, pubSub: rlock.PubSubPlain},
		"3.17.7":        {version: jvm.Oldest, pubSub: rlock.PubSubPlain},
	} {
		t.Run(title, func(t *testing.T) {
			s := stage(t, server, c)
			s.play("synchronizers.txt", jvm.Plain, jvm.Plain)
			s.play("permits.txt", jvm.Plain, jvm.Plain)
		})
	}
}
