package redisson_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEightThreadsAndEightGoroutinesLoseNoCount(t *testing.T) {
	withNewest(t, setting{}, func(s *scene) {
		java, golang := crowd(s, 8, 4*time.Second)
		assert.Positive(s.t, java)
		assert.Positive(s.t, golang)
	})
}

// crowd has so many threads and goroutines take the lock again and again. Each adds one
// to a counter in Redis, by a GET and a SET: only the lock keeps two from
// reading the same number. It returns how often each side had it.
func crowd(s *scene, each int, during time.Duration) (fromJava, fromGo int) {
	var all sync.WaitGroup
	java, golang := make([]int, each), make([]int, each)
	lock := s.client.NewLock(s.fresh())
	counter := lock.Name() + ":counter"
	for i := range each {
		all.Go(func() {
			var err error
			java[i], err = s.java.Thread(fmt.Sprint("crowd ", i)).Count(lock.Name(), counter, during)
			assert.NoError(s.t, err)
		})
		all.Go(func() {
			for end := time.Now().Add(during); time.Now().Before(end); golang[i]++ {
				if !assert.NoError(s.t, lock.Do(s.ctx, func(ctx context.Context) error { return s.addOne(ctx, counter) })) {
					return
				}
			}
		})
	}
	all.Wait()

	counted, err := s.do("GET", counter).AsInt64()
	require.NoError(s.t, err)
	fromJava, fromGo = sum(java), sum(golang)
	s.t.Logf("sections: Java %d %v, Go %d %v", fromJava, java, fromGo, golang)
	assert.EqualValues(s.t, fromJava+fromGo, counted, "a section that overlapped another lost its count")
	return fromJava, fromGo
}

func (s *scene) addOne(ctx context.Context, counter string) error {
	n, err := s.outside.Do(ctx, s.outside.B().Get().Key(counter).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return s.outside.Do(ctx, s.outside.B().Set().Key(counter).Value(fmt.Sprint(n+1)).Build()).Error()
}

func sum(numbers []int) (all int) {
	for _, n := range numbers {
		all += n
	}
	return all
}
