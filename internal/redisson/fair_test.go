package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// rlock's fair lock and Java's locks of its name. They have no queue in common, but
// one key.

// fairGo is golang for rlock's fair lock.
func (s *scene) fairGo() side {
	return owner{rlock.WithOwner(s.ctx, rlock.NewOwner()), func(lock string) rlock.Locker { return s.client.NewFairLock(lock) }}
}

func TestAFairLockAndJavasLocksOfItsNameKeepEachOtherOut(t *testing.T) {
	for _, kind := range []redisson.Kind{redisson.Plain, redisson.Fair} {
		t.Run("Java's is "+string(kind), func(t *testing.T) {
			withBoth(t, setting{kind: kind}, func(s *scene) {
				java, golang := s.thread("one"), s.fairGo()
				exclusion(s, java, golang)
				exclusion(s, golang, java)
				nesting(s, java, golang)
				nesting(s, golang, java)
				for _, pair := range [][2]side{{java, golang}, {golang, java}} {
					lock, first, second := s.fresh(), pair[0], pair[1]
					require.NoError(s.t, first.Lock(lock, 0))
					ok, err := second.ForceUnlock(lock)
					require.NoError(s.t, err)
					assert.True(s.t, ok)
					err = first.Unlock(lock)
					if first != side(java) || kind == redisson.Plain { // Redisson's fair unlock of a free lock is no error
						assert.True(s.t, notHeld(err))
					}
				}
			})
		})
	}
}

func TestAFairLockAndJavasPlainLockWakeEachOther(t *testing.T) {
	withBoth(t, setting{}, func(s *scene) {
		for _, pair := range [][2]side{{s.thread("one"), s.fairGo()}, {s.fairGo(), s.thread("one")}} {
			lock, first, second := s.fresh(), pair[0], pair[1]
			require.NoError(s.t, first.Lock(lock, 0))
			waiter := s.start(func() error { return second.Lock(lock, 0) })
			s.awaitWaiter(lock)
			time.Sleep(50 * time.Millisecond) // it tries once more when it has subscribed
			unlocked := time.Now()
			require.NoError(s.t, first.Unlock(lock))
			assert.Less(s.t, waiter.succeeds().Sub(unlocked), fallback)
			require.NoError(s.t, second.Unlock(lock))
		}
	})
}
