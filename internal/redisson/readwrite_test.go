package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// The read-write lock between Java and Go.

// A couple is one owner's two locks.
type couple struct{ read, write side }

func (s *scene) javaBoth(thread string) couple {
	t := s.java.Thread(thread)
	return couple{t.With(redisson.Read), t.With(redisson.Write)}
}

func (s *scene) goBoth() couple {
	ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
	return couple{
		owner{ctx, func(lock string) *rlock.Lock { return s.client.NewReadWriteLock(lock).Read() }},
		owner{ctx, func(lock string) *rlock.Lock { return s.client.NewReadWriteLock(lock).Write() }},
	}
}

// eachOwnerFirst runs a sub-test in which Go is first, and one in which Java is.
func (s *scene) eachOwnerFirst(run func(s *scene, first, second couple)) {
	java, golang := s.javaBoth("couple"), s.goBoth()
	s.run("Go first", func(s *scene) { run(s, golang, java) })
	s.run("Java first", func(s *scene) { run(s, java, golang) })
}

// gets asserts whether the side gets the lock at once. If so it has it.
func (s *scene) gets(x side, lock string, want bool) {
	s.t.Helper()
	gives(s.t, want)(x.TryLock(lock, 0, 0))
}

// getsSoon is gets for a lock that the side must have, but not at once: a thread of Redisson
// that waited a moment ago may still be subscribed, and counts as a waiter until then.
func (s *scene) getsSoon(x side, lock string) {
	s.t.Helper()
	gives(s.t, true)(x.TryLock(lock, 10*time.Second, 0))
}

func readWriteLock(s *scene) {
	s.run("writers", func(s *scene) {
		s.eachWay(func(s *scene, first, second side) {
			exclusion(s, first, second)
			nesting(s, first, second)
			views(s, first, second)
		})
		s.run("limits", func(s *scene) { s.eachWayAtOnce(limits) })
	})
	s.run("readers of both sides read at once", func(s *scene) { s.eachOwnerFirst(reading) })
	s.run("the writer of either side becomes a reader", func(s *scene) { s.eachOwnerFirst(downgrading) })
}

func reading(s *scene, first, second couple) {
	lock := s.fresh()
	for range 2 { // free again
		require.NoError(s.t, first.read.Lock(lock, 0))
		require.NoError(s.t, first.read.Lock(lock, 0))
		require.NoError(s.t, second.read.Lock(lock, 0))
		for _, other := range []couple{s.javaBoth("other"), s.goBoth()} {
			s.gets(other.write, lock, false)
			s.getsSoon(other.read, lock)
			require.NoError(s.t, other.read.Unlock(lock))
			assert.True(s.t, notHeld(other.read.Unlock(lock)))
			gives(s.t, true)(other.read.IsLocked(lock))
			gives(s.t, false)(other.write.IsLocked(lock))
			gives(s.t, false)(other.write.ForceUnlock(lock))
		}
		require.NoError(s.t, first.read.Unlock(lock))
		require.NoError(s.t, first.read.Unlock(lock))
		s.gets(s.goBoth().write, lock, false)
		s.gets(s.javaBoth("other").write, lock, false)

		writer := s.start(func() error { return first.write.Lock(lock, 0) })
		s.awaitAsleep(first.write, lock)
		left := time.Now()
		require.NoError(s.t, second.read.Unlock(lock))
		assert.Less(s.t, writer.succeeds().Sub(left), fallback)
		s.gets(second.read, lock, false)
		s.gets(second.write, lock, false)

		reader := s.start(func() error { return second.read.Lock(lock, 0) })
		s.awaitAsleep(second.read, lock)
		left = time.Now()
		require.NoError(s.t, first.write.Unlock(lock))
		assert.Less(s.t, reader.succeeds().Sub(left), fallback)
		require.NoError(s.t, second.read.Unlock(lock))
	}
}

func downgrading(s *scene, first, second couple) {
	lock := s.fresh()
	require.NoError(s.t, first.write.Lock(lock, 0))
	require.NoError(s.t, first.read.Lock(lock, 0))
	for _, x := range []side{second.read, second.write} {
		s.gets(x, lock, false)
	}
	require.Eventually(s.t, func() bool { // what Go has nested is mirrored, not waited for
		locked, err := second.read.IsLocked(lock)
		return err == nil && locked
	}, redistest.Hang, time.Millisecond)
	if _, ours := first.write.(owner); ours {
		reader := s.start(func() error { return second.read.Lock(lock, 0) })
		s.awaitAsleep(second.read, lock)
		downgraded := time.Now()
		require.NoError(s.t, first.write.Unlock(lock))
		assert.Less(s.t, reader.succeeds().Sub(downgraded), fallback)
	} else {
		// Redisson publishes nothing: a waiter looks by itself, after 5 s at most.
		require.NoError(s.t, first.write.Unlock(lock))
		s.gets(second.read, lock, true)
	}
	gives(s.t, true)(first.read.IsHeld(lock))
	require.NoError(s.t, second.read.Unlock(lock))
	s.gets(second.write, lock, false)
	require.NoError(s.t, first.read.Unlock(lock))
	s.gets(second.write, lock, true)
	require.NoError(s.t, second.write.Unlock(lock))
}

// Readers of Java, of the writer's process and of another one in Go wait for a writer in Go, in
// whatever order they came: they read together, as Redisson's do.
func TestReadersBehindAWriterInGoReadTogether(t *testing.T) {
	withOldAndNew(t, setting{kind: redisson.Read, lease: keptLease}, func(s *scene) {
		elsewhere := *s
		elsewhere.client = s.startGo()
		readers := map[string]func() side{
			"java":      func() side { return s.java.Thread("reader").With(redisson.Read) },
			"here":      func() side { return s.goBoth().read },
			"elsewhere": func() side { return elsewhere.goBoth().read },
		}
		for _, order := range [][]string{{"java", "elsewhere"}, {"elsewhere", "java"}, {"java", "here", "elsewhere"}, {"elsewhere", "here", "java"}, {"here", "java", "elsewhere"}} {
			lock, writer := s.fresh(), s.goBoth().write
			require.NoError(s.t, writer.Lock(lock, 0))
			var waiting []*call
			all := make([]side, len(order))
			for i, name := range order {
				reader := readers[name]()
				all[i] = reader
				waiting = append(waiting, s.start(func() error { return reader.Lock(lock, 0) }))
				switch name {
				case "java":
					s.awaitAsleep(reader, lock)
				case "here":
					require.Eventually(s.t, func() bool { return inspect.Of(s.client).Stats().Waiting > 0 }, redistest.Hang, time.Millisecond)
				default:
					require.Eventually(s.t, func() bool { return s.number("ZCARD", "rlock_queue:{"+lock+"}rw") > 0 }, redistest.Hang, time.Millisecond)
				}
			}
			left := time.Now()
			require.NoError(s.t, writer.Unlock(lock))
			for i, w := range waiting { // none has unlocked
				assert.Less(s.t, w.succeeds().Sub(left), fallback, "%s of %v", order[i], order)
			}
			gives(s.t, false)(s.do("HEXISTS", "rlock_foreign:{"+lock+"}rw", "w").AsBool()) // none was held back
			for _, reader := range all {
				require.NoError(s.t, reader.Unlock(lock))
			}
			assert.Zero(s.t, s.number("EXISTS", lock))
		}
	})
}

// Writers of both sides count, and readers check that no writer does meanwhile.
func TestReadWriteCrowdsOfBothSidesLoseNoCount(t *testing.T) {
	// A waiter of Redisson's that misses its message sleeps until the lease ends.
	withNewest(t, setting{lease: keptLease}, func(s *scene) {
		const each, during = 4, 3 * time.Second
		lock := s.client.NewReadWriteLock(s.fresh())
		name := lock.Read().Name()
		counter := name + ":counter"
		var all sync.WaitGroup
		var java, golang, reads, readsOfJava atomic.Int64
		end := time.Now().Add(during)
		for i := range each {
			all.Go(func() {
				n, err := s.java.Thread(fmt.Sprint("writer ", i)).With(redisson.Write).Count(name, counter, during)
				assert.NoError(s.t, err)
				java.Add(int64(n))
			})
			all.Go(func() {
				for ; time.Now().Before(end); golang.Add(1) {
					if !assert.NoError(s.t, lock.Write().Do(s.ctx, func(ctx context.Context) error { return s.addOne(ctx, counter) })) {
						return
					}
				}
			})
			all.Go(func() {
				for ; time.Now().Before(end); reads.Add(1) {
					if !assert.NoError(s.t, lock.Read().Do(s.ctx, func(ctx context.Context) error { return s.unchanged(ctx, counter) })) {
						return
					}
				}
			})
			all.Go(func() {
				reader := s.javaBoth(fmt.Sprint("reader ", i)).read
				for ; time.Now().Before(end); readsOfJava.Add(1) {
					if !assert.NoError(s.t, reader.Lock(name, 0)) || !assert.NoError(s.t, s.unchanged(s.ctx, counter)) || !assert.NoError(s.t, reader.Unlock(name)) {
						return
					}
				}
			})
		}
		all.Wait()
		counted, err := s.do("GET", counter).AsInt64()
		require.NoError(s.t, err)
		s.t.Logf("writes: Java %d, Go %d; reads: Java %d, Go %d", java.Load(), golang.Load(), readsOfJava.Load(), reads.Load())
		assert.Equal(s.t, java.Load()+golang.Load(), counted, "a section that overlapped another lost its count")
		for _, sections := range []*atomic.Int64{&java, &golang, &reads, &readsOfJava} {
			assert.Positive(s.t, sections.Load())
		}
		assert.Zero(s.t, s.number("EXISTS", name))
	})
}

// unchanged fails if the counter changes between two looks.
func (s *scene) unchanged(ctx context.Context, counter string) error {
	var seen [2]int64
	for i := range seen {
		n, err := s.outside.Do(ctx, s.outside.B().Get().Key(counter).Build()).AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		seen[i] = n
	}
	if seen[0] != seen[1] {
		return errors.New("a writer wrote during a read")
	}
	return nil
}

func (s *scene) number(command, key string) int64 {
	s.t.Helper()
	n, err := s.do(command, key).AsInt64()
	require.NoError(s.t, err)
	return n
}
