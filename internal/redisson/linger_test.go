package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
)

// Locks that linger in Go, beside Java, which cannot call. They would linger for an hour: where
// Java gets the lock at all, the Go client has found out that it waits.

// A lingerRow is a kind of lock on each side.
type lingerRow struct {
	title        string
	golang, java redisson.Kind
}

var lingerRows = []lingerRow{
	{"plain", redisson.Plain, redisson.Plain},
	{"fenced", redisson.Fenced, redisson.Fenced},
	{"Go writes, Java reads", redisson.Write, redisson.Read},
	{"Go reads, Java writes", redisson.Read, redisson.Write},
}

func TestJavaGetsALockThatLingers(t *testing.T) {
	withBoth(t, setting{linger: time.Hour, lease: 3 * time.Second}, func(s *scene) {
		rows := make(map[string]func(s *scene))
		for _, row := range lingerRows {
			rows[row.title] = func(s *scene) {
				lingersOnce(s, s.of(row.golang).golang(), s.of(row.java).thread(row.title))
			}
			rows[row.title+", in use again and again"] = func(s *scene) {
				isUsedAgain(s, s.of(row.golang).golang(), s.of(row.java).thread(row.title+" again"))
			}
		}
		rows["no count is lost"] = func(s *scene) {
			java, golang := crowd(s, 1, 4*time.Second)
			assert.Positive(s.t, java)
			assert.Positive(s.t, golang)
		}
		s.atOnce(rows)
	})
}

// In lingers the Go side takes the lock and gives it back until it lingers: its client must
// have subscribed to its own channel before.
func (s *scene) lingers(golang side, lock string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		require.NoError(s.t, golang.Lock(lock, 0))
		require.NoError(s.t, golang.Unlock(lock))
		return s.exists(lock)
	}, hang, time.Millisecond, "it does not linger")
}

func (s *scene) exists(key string) bool {
	s.t.Helper()
	n, err := s.do("EXISTS", key).AsInt64()
	require.NoError(s.t, err)
	return n == 1
}

// lingersOnce is about an unused lock.
func lingersOnce(s *scene, golang, java side) {
	lock := s.fresh()
	s.lingers(golang, lock)
	gives(s.t, false)(java.TryLock(lock, 0, 0)) // to Java it is held

	asked := time.Now()
	require.NoError(s.t, java.Lock(lock, 0))
	s.t.Logf("the first time Java waited for %v", time.Since(asked))
	gives(s.t, false)(golang.TryLock(lock, 0, 0)) // it is Java's, and Go has met it
	require.NoError(s.t, java.Unlock(lock))

	require.NoError(s.t, golang.Lock(lock, 0))
	require.NoError(s.t, golang.Unlock(lock))
	assert.False(s.t, s.exists(lock), "it lingers no longer")
	asked = time.Now()
	require.NoError(s.t, java.Lock(lock, 0))
	s.t.Logf("the second time Java waited for %v", time.Since(asked))
	require.NoError(s.t, java.Unlock(lock))
}

// isUsedAgain is about a lock that the Go side never leaves alone.
func isUsedAgain(s *scene, golang, java side) {
	lock := s.fresh()
	s.lingers(golang, lock)
	got := make(chan struct{})
	uses := s.start(func() error {
		for {
			if err := golang.Lock(lock, 0); err != nil {
				return err
			}
			time.Sleep(mixedSection)
			if err := golang.Unlock(lock); err != nil {
				return err
			}
			select {
			case <-got:
				return nil
			default:
			}
		}
	})
	asked := time.Now()
	require.NoError(s.t, java.Lock(lock, 0))
	s.t.Logf("Java waited for %v", time.Since(asked))
	close(got)
	require.NoError(s.t, java.Unlock(lock))
	uses.succeeds()
}
