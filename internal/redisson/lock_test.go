package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	}, redistest.Hang, time.Millisecond, "depth %d", depth)
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

	require.NoError(s.t, first.Unlock(lock))

	granted := func(lease time.Duration) (lock string) {
		lock = s.fresh()
		require.NoError(s.t, first.Lock(lock, 0))
		waiter := s.start(func() error {
			ok, err := second.TryLock(lock, redistest.Hang, lease)
			if err == nil && !ok {
				err = errors.New("not within the wait")
			}
			return err
		})
		s.awaitAsleep(second, lock)
		require.NoError(s.t, first.Unlock(lock))
		waiter.succeeds()
		return lock
	}
	// rlock is granted the lock for a claim of two seconds, and then tells Redis of the lease.
	lock = granted(time.Hour)
	require.Eventually(s.t, func() bool {
		ttl, err := first.TTL(lock)
		return err == nil && ttl > time.Hour-redistest.Hang
	}, redistest.Hang, time.Millisecond)
	require.NoError(s.t, second.Unlock(lock))

	lock = granted(lease)
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

// Keys, channels and their braces have to be the same bytes on both sides, and the
// slot with them: a waiter on another channel is not woken.
func names(s *scene) {
	golang, java := s.golang(), s.java.Thread("one")
	for _, name := range []string{
		"a",
		"orders:42",
		"orders 42 ",
		"{orders}:42",
		"42:{orders}:{items}",
		"a{b",
		"a}b",
		"}{",
		"{}",
		`quoted"and\escaped`,
		"naïve",
		"заказ:42",
		"注文42",
		"🔒",
		"line\nfeed\ttab",
	} {
		woken := wakeUp(s, golang, java, name) + wakeUp(s, java, golang, name+name)
		assert.Less(s.t, woken, fallback, "%q", name)
	}
}

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

// A lock that Go has passed on belongs to no thread of Java: Redisson sees a lock of another client
// with a lease.

func TestALockThatIsPassedOnIsHeldToRedisson(t *testing.T) {
	withBoth(t, setting{lease: 3 * time.Second}, func(s *scene) {
		java := s.thread("one")
		passed := func(within time.Duration) (lock, pass string) {
			lock = s.fresh()
			hold, err := s.client.NewLock(lock).Acquire(s.ctx)
			require.NoError(s.t, err)
			pass, err = hold.Pass(s.ctx, within)
			require.NoError(s.t, err)
			return lock, pass
		}
		refused := func(lock string, within time.Duration) {
			s.t.Helper()
			gives(s.t, true)(java.IsLocked(lock))
			gives(s.t, false)(java.IsHeld(lock))
			left, err := java.TTL(lock)
			require.NoError(s.t, err)
			assert.Positive(s.t, left)
			assert.LessOrEqual(s.t, left, within)
			gives(s.t, false)(java.TryLock(lock, 0, 0))
			assert.True(s.t, notHeld(java.Unlock(lock)))
		}

		lock, pass := passed(time.Minute)
		refused(lock, time.Minute)
		left, err := java.TTL(lock)
		require.NoError(s.t, err)
		assert.Greater(s.t, left, 3*time.Second, "the time of the pass, and not the lease of before")
		hold, err := s.client.Resume(s.ctx, pass)
		require.NoError(s.t, err)
		refused(lock, 3*time.Second)
		gives(s.t, true)(java.ForceUnlock(lock))
		select {
		case <-hold.Context().Done(): // with the next renewal
			require.ErrorIs(s.t, context.Cause(hold.Context()), rlock.ErrLost)
		case <-s.ctx.Done():
			require.NoError(s.t, s.ctx.Err())
		}
		require.ErrorIs(s.t, hold.Release(s.ctx), rlock.ErrLost)

		lock, pass = passed(time.Minute)
		waiter := s.start(func() error { return java.Lock(lock, 0) })
		s.awaitAsleep(java, lock)
		gives(s.t, true)(s.thread("two").ForceUnlock(lock))
		waiter.succeeds()
		_, err = s.client.Resume(s.ctx, pass)
		require.ErrorIs(s.t, err, rlock.ErrNotPassed)
		require.NoError(s.t, java.Unlock(lock))

		lock, pass = passed(time.Second)
		require.NoError(s.t, java.Lock(lock, 0), "its time is over")
		_, err = s.client.Resume(s.ctx, pass)
		require.ErrorIs(s.t, err, rlock.ErrNotPassed)
		require.NoError(s.t, java.Unlock(lock))
	})
}

// A thread that waits has read a lease of 30 s. It is told that the lock is left to a shorter one.
func TestAThreadHasALockThatIsPassedOnAndNotResumedInTime(t *testing.T) {
	withNewest(t, setting{}, func(s *scene) {
		lock, java := s.fresh(), s.thread("one")
		hold, err := s.client.NewLock(lock).Acquire(s.ctx)
		require.NoError(s.t, err)
		waits := s.start(func() error { return java.Lock(lock, 0) })
		s.awaitAsleep(java, lock)
		passed := time.Now()
		_, err = hold.Pass(s.ctx, 2*time.Second)
		require.NoError(s.t, err)
		took := waits.succeeds().Sub(passed)
		s.t.Logf("after %v", took)
		assert.Less(s.t, took, 20*time.Second)
		require.NoError(s.t, java.Unlock(lock))
	})
}

// A hold with a note excludes the threads of Java and is woken by them as any other.

func TestAHoldWithANoteIsAnOwnerToRedisson(t *testing.T) {
	withOldAndNew(t, setting{lease: 3 * time.Second}, func(s *scene) {
		for kind, of := range map[redisson.Kind]func(lock string) *rlock.Lock{
			redisson.Plain:  func(lock string) *rlock.Lock { return s.client.NewLock(lock) },
			redisson.Fair:   func(lock string) *rlock.Lock { return s.client.NewFairLock(lock) },
			redisson.Read:   func(lock string) *rlock.Lock { return s.client.NewReadWriteLock(lock).Read() },
			redisson.Write:  func(lock string) *rlock.Lock { return s.client.NewReadWriteLock(lock).Write() },
			redisson.Fenced: func(lock string) *rlock.Lock { return s.client.NewFencedLock(lock) },
		} {
			if kind == redisson.Fenced && s.setting.version == redisson.Oldest {
				continue // has none
			}
			of, lock, note := of, s.fresh(), rlock.WithNote("job *7:write #~")
			rival := kind // of the thread that is kept out
			if kind == redisson.Read {
				rival = redisson.Write
			}
			java, alike := s.java.Thread("one").With(rival), s.java.Thread("one").With(kind)
			hold, err := of(lock).Acquire(s.ctx, note)
			require.NoError(s.t, err)
			gives(s.t, true)(alike.IsLocked(lock))
			gives(s.t, false)(java.IsHeld(lock))
			gives(s.t, false)(java.TryLock(lock, 0, 0))
			assert.True(s.t, notHeld(java.Unlock(lock)), "a stranger's unlock")
			waiter := s.start(func() error { return java.Lock(lock, 0) })
			s.awaitAsleep(java, lock)
			require.NoError(s.t, hold.Release(s.ctx), kind)
			waiter.succeeds()

			next := s.start(func() (err error) { hold, err = of(lock).Acquire(s.ctx, note); return err })
			require.NoError(s.t, java.Unlock(lock))
			next.succeeds()
			gives(s.t, true)(alike.ForceUnlock(lock))
			select {
			case <-hold.Context().Done(): // with the next renewal
				require.ErrorIs(s.t, context.Cause(hold.Context()), rlock.ErrLost)
			case <-s.ctx.Done():
				require.NoError(s.t, s.ctx.Err())
			}
			require.ErrorIs(s.t, hold.Release(s.ctx), rlock.ErrLost)
		}
	})
}

// A thread of Java that holds the lock is not told that it is taken over: it loses the lock by force
// two seconds after the grace. A thread that waits comes behind the call.
func TestALockIsTakenOverFromAThread(t *testing.T) {
	withOldAndNew(t, setting{}, func(s *scene) {
		lock, java, waiter := s.fresh(), s.thread("one"), s.thread("two")
		require.NoError(s.t, java.Lock(lock, 0))
		waits := s.start(func() error { return waiter.Lock(lock, 0) })
		s.awaitAsleep(waiter, lock)
		began := time.Now()
		hold, err := s.client.NewLock(lock).Acquire(s.ctx, rlock.WithTakeover(100*time.Millisecond))
		require.NoError(s.t, err)
		s.t.Logf("after %v", time.Since(began))
		assert.Less(s.t, time.Since(began), 20*time.Second, "not by its lease")
		assert.True(s.t, notHeld(java.Unlock(lock)))
		gives(s.t, false)(java.TryLock(lock, 0, 0))
		select {
		case <-waits.done:
			s.t.Error("the thread that waits has the lock")
		default:
		}
		require.NoError(s.t, hold.Release(s.ctx))
		waits.succeeds()
		require.NoError(s.t, waiter.Unlock(lock))
	})
}

// The lines of tenants wait for a lock that a thread of Java holds, and another thread waits for it
// among them, also one of Redisson's fair lock: each is served, and a tenant with one caller comes
// before most of a tenant with many.
func TestLinesAndThreadsTakeTurns(t *testing.T) {
	withOldAndNew(t, setting{}, func(s *scene) {
		for _, kind := range []redisson.Kind{redisson.Plain, redisson.Fair} {
			lock, holder, java := s.fresh(), s.java.Thread("one").With(kind), s.java.Thread("two").With(kind)
			require.NoError(s.t, holder.Lock(lock, 0))
			var mu sync.Mutex
			var order []string
			serve := func(caller string) { mu.Lock(); defer mu.Unlock(); order = append(order, caller) }
			var all []*call
			for i, line := range []string{"crowd", "crowd", "crowd", "crowd", "single"} {
				all = append(all, s.start(func() error {
					return s.client.NewFairLock(lock).Do(s.ctx, func(context.Context) error { serve(line); return nil }, rlock.WithLine(line))
				}))
				require.Eventually(s.t, func() bool {
					shown, err := inspect.Of(s.client).Lock(s.ctx, lock)
					return err == nil && shown.Waiting >= i+1
				}, redistest.Hang, time.Millisecond)
			}
			all = append(all, s.start(func() error {
				if err := java.Lock(lock, 0); err != nil {
					return err
				}
				serve("java")
				return java.Unlock(lock)
			}))
			s.awaitAsleep(java, lock)
			require.NoError(s.t, holder.Unlock(lock))
			for _, w := range all {
				w.succeeds()
			}
			s.t.Log(kind, order)
			lines := slices.DeleteFunc(slices.Clone(order), func(caller string) bool { return caller == "java" })
			assert.Equal(s.t, []string{"crowd", "crowd", "single", "crowd", "crowd"}, lines)
		}
	})
}
