package redisson_test

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// rlock's fair lock and Java's locks of its name. They have no queue in common, but
// one key.

// fairGo is golang for rlock's fair lock.
func (s *scene) fairGo() side {
	return owner{rlock.WithOwner(s.ctx, rlock.NewOwner()), func(lock string) *rlock.Lock { return s.client.NewFairLock(lock) }}
}

func fairLock(s *scene) {
	for _, kind := range []redisson.Kind{redisson.Plain, redisson.Fair} {
		s.run("Java's is "+string(kind), func(s *scene) { fairExclusion(s.of(kind)) })
	}
	s.run("Java's plain one and ours wake each other", fairWakes)
}

func fairExclusion(s *scene) {
	java, golang := s.thread("one"), s.fairGo()
	for _, sides := range [][2]side{{java, golang}, {golang, java}} {
		first, second := sides[0], sides[1]
		exclusion(s, first, second)
		nesting(s, first, second)
		lock := s.fresh()
		require.NoError(s.t, first.Lock(lock, 0))
		gives(s.t, true)(second.ForceUnlock(lock))
		err := first.Unlock(lock)
		if first != side(java) || s.setting.kind == redisson.Plain { // Redisson's fair unlock of a free lock is no error
			assert.True(s.t, notHeld(err))
		}
	}
}

func fairWakes(s *scene) {
	for _, sides := range [][2]side{{s.thread("one"), s.fairGo()}, {s.fairGo(), s.thread("one")}} {
		assert.Less(s.t, wakeUp(s, sides[0], sides[1], s.fresh()), fallback)
	}
}
