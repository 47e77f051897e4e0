package redisson_test

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The fenced lock between Java and Go.

func fencedLock(s *scene) {
	s.eachWay(func(s *scene, first, second side) {
		exclusion(s, first, second)
		nesting(s, first, second)
		views(s, first, second)
		force(s, first, second)
		assert.Less(s.t, wakeUp(s, first, second, s.fresh()), fallback)
	})
	s.run("limits", func(s *scene) { s.eachWayAtOnce(limits) })
	s.run("tokens grow from Java to Go and back", alternating)
	s.run("tokens grow in a crowd of threads and goroutines", tokensOfACrowd)
}

func alternating(s *scene) {
	java, lock := s.thread("one"), s.client.NewFencedLock(s.fresh())
	var last uint64
	for range 10 {
		gives(s.t, last+1)(java.LockAndGetToken(lock.Name()))
		nested, err := java.LockAndGetToken(lock.Name())
		require.NoError(s.t, err)
		assert.Equal(s.t, last+2, nested, "Redisson has a token for each level")
		require.NoError(s.t, java.Unlock(lock.Name()))
		require.NoError(s.t, java.Unlock(lock.Name()))

		hold, err := lock.Acquire(s.ctx)
		require.NoError(s.t, err)
		last, err = hold.Token()
		require.NoError(s.t, err)
		assert.Equal(s.t, nested+1, last)
		gives(s.t, last)(java.Token(lock.Name())) // no caller waited: no other token is reserved
		require.NoError(s.t, hold.Release(s.ctx))
	}
}

func tokensOfACrowd(s *scene) {
	const each, rounds = 6, 40
	lock := s.client.NewFencedLock(s.fresh())
	var last, java, golang atomic.Uint64
	var all sync.WaitGroup
	// inside is called with the lock held: no call of another falls in between.
	inside := func(token uint64, sections *atomic.Uint64) {
		sections.Add(1)
		if before := last.Swap(token); before >= token {
			assert.Fail(s.t, "tokens do not grow", "%d after %d", token, before)
		}
	}
	for i := range each {
		all.Go(func() {
			thread := s.thread(fmt.Sprint("crowd ", i))
			for range rounds {
				token, err := thread.LockAndGetToken(lock.Name())
				if !assert.NoError(s.t, err) {
					return
				}
				inside(token, &java)
				assert.NoError(s.t, thread.Unlock(lock.Name()))
			}
		})
		all.Go(func() {
			for java.Load() < each*rounds && s.ctx.Err() == nil && !s.t.Failed() {
				hold, err := lock.Acquire(s.ctx)
				if !assert.NoError(s.t, err) {
					return
				}
				token, err := hold.Token()
				assert.NoError(s.t, err)
				inside(token, &golang)
				assert.NoError(s.t, hold.Release(s.ctx))
			}
		})
	}
	all.Wait()
	s.t.Logf("sections: Java %d, Go %d; the last token %d", java.Load(), golang.Load(), last.Load())
	assert.Positive(s.t, golang.Load())
}
