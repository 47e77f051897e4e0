package redisson_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	jvm "github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// The synchronizers of both languages wait for each other.
func TestSynchronizersAreSharedWithRedisson(t *testing.T) {
	withOldAndNew(t, setting{}, func(s *scene) {
		s.play("synchronizers.txt", jvm.Plain, jvm.Plain)
		s.play("permits.txt", jvm.Plain, jvm.Plain)
		name := s.fresh()
		t, ctx, sem := s.t, s.ctx, redisson.New(s.client).Semaphore(name)
		gives(t, true)(sem.TrySetPermits(ctx, 3))
		var inside, most atomic.Int64
		enter := func() {
			n := inside.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
		}
		var all []*call
		for range 4 {
			all = append(all, s.start(func() error {
				for range 50 {
					if err := sem.Acquire(ctx, 1); err != nil {
						return err
					}
					enter()
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					if err := sem.Release(context.WithoutCancel(ctx), 1); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, who := range []string{"1", "2"} {
			thread := s.java.Thread(who).With(jvm.Semaphore)
			all = append(all, s.start(func() error {
				for range 50 {
					// A wake-up of Redisson's may be lost: it would sleep until the next
					// message.
					got, err := thread.Do("tryAcquire", name, 1, 100, jvm.Milliseconds)
					if err != nil {
						return err
					}
					if got != "true" {
						continue
					}
					enter()
					inside.Add(-1)
					if _, err := thread.Do("release", name, 1); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		for _, one := range all {
			one.succeeds()
		}
		assert.LessOrEqual(t, most.Load(), int64(3))
		gives(t, 3)(sem.AvailablePermits(ctx))
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
