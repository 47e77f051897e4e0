package redisson_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

// The plain lock between Java and Go, each way round. The part that runs on a Cluster as well is
// a function that both tests call.

// notHeld says whether the error is a side's way of saying that its caller does not
// hold the lock, or no longer.
func notHeld(err error) bool {
	var e *redisson.Exception
	if errors.As(err, &e) {
		return e.Class == "java.lang.IllegalMonitorStateException"
	}
	return errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost)
}

func TestLocksAreTheSameToBothSides(t *testing.T) {
	withBoth(t, setting{}, func(s *scene) {
		s.run("plain", plainLock)
		s.run("fenced", func(s *scene) { fencedLock(s.of(redisson.Fenced)) })
		s.run("read-write", func(s *scene) { readWriteLock(s.of(redisson.Write)) })
		s.run("fair", fairLock)
	})
}

func plainLock(s *scene) {
	for _, does := range []struct {
		title string
		each  func(s *scene, first, second side)
	}{
		{"a holder keeps the other out", exclusion},
		{"nested, it is free after as many unlocks", nesting},
		{"the other sees it", views},
		{"a forced unlock takes it from the other", force},
		{"a waiter is woken by the other's message", wakes},
	} {
		s.run(does.title, func(s *scene) { s.eachWay(does.each) })
	}
	s.run("a wait with a limit ends then, and a lease by itself", func(s *scene) { s.eachWayAtOnce(limits) })
	s.run("names of any kind mean the same", names)
	s.run("threads are owners, and the order of their calls is kept", threads)
}

func exclusion(s *scene, first, second side) {
	lock := s.fresh()
	for range 2 { // free again, for either
		require.NoError(s.t, first.Lock(lock, 0))
		gives(s.t, false)(second.TryLock(lock, 0, 0))
		assert.True(s.t, notHeld(second.Unlock(lock)), "a stranger's unlock")

		require.NoError(s.t, first.Unlock(lock))
		gives(s.t, true)(second.TryLock(lock, 0, 0))
		assert.True(s.t, notHeld(first.Unlock(lock)), "it is the other's now")
		require.NoError(s.t, second.Unlock(lock))
	}
}

func wakes(s *scene, first, second side) {
	var took []time.Duration
	for range 20 {
		took = append(took, wakeUp(s, first, second, s.fresh()))
	}
	slices.Sort(took)
	s.t.Logf("from the call of unlock to the other side's return from lock, %d times: median %v, worst %v",
		len(took), took[len(took)/2], took[len(took)-1])
	assert.Less(s.t, took[len(took)/2], fallback/2, "they were not woken, they looked by themselves")
}

// fallback is when a waiter of rlock looks by itself; one of Redisson does when the lease
// is over, after 30 s. A waiter that is woken by a message takes far less.
const fallback = 5 * time.Second

// In wakeUp the second waits until the first unlocks. It returns how long that takes from
// there.
func wakeUp(s *scene, first, second side, lock string) time.Duration {
	s.t.Helper()
	require.NoError(s.t, first.Lock(lock, 0))
	waiter := s.start(func() error { return second.Lock(lock, 0) })
	s.awaitAsleep(second, lock)
	unlocked := time.Now()
	require.NoError(s.t, first.Unlock(lock))
	took := waiter.succeeds().Sub(unlocked)
	require.NoError(s.t, second.Unlock(lock))
	return took
}

func nesting(s *scene, first, second side) {
	const depth = 3
	lock := s.fresh()
	for range depth {
		require.NoError(s.t, first.Lock(lock, 0))
	}
	for left := depth; left > 0; left-- {
		gives(s.t, left)(first.HoldCount(lock))
		gives(s.t, 0)(second.HoldCount(lock)) // the count is the caller's own
		s.awaitCount(lock, left)

		gives(s.t, false)(second.TryLock(lock, 0, 0))
		require.NoError(s.t, first.Unlock(lock))
	}
	gives(s.t, true)(second.TryLock(lock, 0, 0))
	require.NoError(s.t, second.Unlock(lock))
}

// awaitCount returns when the hash in Redis, which is all that one side ever sees of
// the other's depth, shows it. A Go client mirrors a nested lock at once, but does not wait.
func (s *scene) awaitCount(lock string, depth int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		hash, err := s.do("HGETALL", lock).AsStrMap()
		delete(hash, "mode") // of a read-write lock
		if err != nil || len(hash) != 1 {
			return false
		}
		for _, count := range hash {
			return count == fmt.Sprint(depth)
		}
		return false
	}, hang, time.Millisecond, "depth %d", depth)
}

func views(s *scene, first, second side) {
	lock := s.fresh()
	sees := func(locked bool, shortest, longest time.Duration) {
		s.t.Helper()
		gives(s.t, locked)(second.IsLocked(lock))
		gives(s.t, false)(second.IsHeld(lock))
		ttl, err := second.TTL(lock)
		require.NoError(s.t, err)
		assert.GreaterOrEqual(s.t, ttl, shortest)
		assert.LessOrEqual(s.t, ttl, longest)
	}
	const free = -2 * time.Millisecond // Redisson's word for it; ours is 0
	sees(false, free, 0)
	require.NoError(s.t, first.Lock(lock, 0))
	sees(true, time.Millisecond, 30*time.Second)
	require.NoError(s.t, first.Unlock(lock))
	sees(false, free, 0)
	require.NoError(s.t, first.Lock(lock, time.Hour))
	sees(true, 50*time.Minute, time.Hour)
	require.NoError(s.t, first.Unlock(lock))
	sees(false, free, 0)
}

func limits(s *scene, first, second side) {
	const wait, lease = 200 * time.Millisecond, 300 * time.Millisecond
	lock := s.fresh()
	require.NoError(s.t, first.Lock(lock, 0))
	began := time.Now()
	ok, err := second.TryLock(lock, wait, lease)
	took := time.Since(began)
	require.NoError(s.t, err)
	assert.False(s.t, ok)
	s.t.Logf("a wait of %v for a lock that is held took %v", wait, took)
	assert.GreaterOrEqual(s.t, took, wait-10*time.Millisecond, "Redisson counts in whole milliseconds")

	waiter := s.start(func() error {
		ok, err := second.TryLock(lock, hang, lease)
		if err == nil && !ok {
			err = errors.New("not within the wait")
		}
		return err
	})
	s.awaitAsleep(second, lock)
	require.NoError(s.t, first.Unlock(lock))
	waiter.succeeds()
	// rlock is granted the lock for a claim of two seconds, and then tells Redis of the lease.
	assert.Eventually(s.t, func() bool {
		ttl, err := first.TTL(lock)
		return err == nil && ttl <= lease
	}, time.Second, time.Millisecond)

	require.NoError(s.t, first.Lock(lock, 0), "it is not unlocked: its lease ends")
	assert.True(s.t, notHeld(second.Unlock(lock)), "the lease has ended")
	require.NoError(s.t, first.Unlock(lock))
}

func force(s *scene, first, second side) {
	lock := s.fresh()
	gives(s.t, false)(second.ForceUnlock(lock)) // it is free

	require.NoError(s.t, first.Lock(lock, 0))
	waiter := s.start(func() error { return second.Lock(lock, 0) })
	s.awaitAsleep(second, lock)
	forced := time.Now()
	gives(s.t, true)(first.ForceUnlock(lock))
	assert.Less(s.t, waiter.succeeds().Sub(forced), fallback, "it was not woken, it looked by itself")
	assert.True(s.t, notHeld(first.Unlock(lock)))
	require.NoError(s.t, second.Unlock(lock))

	lock = s.fresh()
	require.NoError(s.t, first.Lock(lock, 0))
	gives(s.t, true)(second.ForceUnlock(lock))
	gives(s.t, true)(second.TryLock(lock, 0, 0))
	assert.True(s.t, notHeld(first.Unlock(lock)))
	require.NoError(s.t, second.Unlock(lock))
}
