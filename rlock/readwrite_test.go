package rlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// What a ReadWriteLock adds to other locks. The tests over all kinds cover each of its two
// locks; readers_test.go covers shared tenures.

// A rwClient is the read-write lock of one client.
type rwClient struct {
	*testClient
	read  *rlock.Lock
	write *rlock.Lock
}

func (w *world) rwClient(changes ...func(*rlock.Config)) rwClient {
	w.t.Helper()
	p := w.client(changes...)
	l := p.NewReadWriteLock(key)
	return rwClient{p, l.Read(), l.Write()}
}

// readWithoutEnd starts each readers in each of the rwClients, which read until the end, one
// section after the other. The rwClients begin at intervals of apart[0], the readers of one
// at intervals of apart[1]. The returned function waits for them, and returns how often each
// has read.
func readWithoutEnd(w *world, rwClients []rwClient, each int, apart [2]time.Duration, section time.Duration, end time.Time) (reads func() []int) {
	counts := make([]int, each*len(rwClients))
	var all sync.WaitGroup
	for i, l := range rwClients {
		for j := range each {
			reader := w.caller()
			all.Go(func() {
				time.Sleep(time.Duration(i)*apart[0] + time.Duration(j)*apart[1])
				for ; time.Now().Before(end); counts[each*i+j]++ {
					assert.NoError(w.t, l.read.Lock(reader))
					time.Sleep(section)
					assert.NoError(w.t, l.read.Unlock(reader))
				}
			})
		}
	}
	return func() []int { all.Wait(); return counts }
}

// writeUntil writes again and again, and returns how often, and its longest wait.
func writeUntil(w *world, l rwClient, between time.Duration, end time.Time) (writes int, longest time.Duration) {
	for writer := w.caller(); time.Now().Before(end); writes++ {
		began := time.Now()
		assert.NoError(w.t, l.write.Lock(writer))
		longest = max(longest, time.Since(began))
		time.Sleep(time.Millisecond)
		assert.NoError(w.t, l.write.Unlock(writer))
		time.Sleep(between)
	}
	return writes, longest
}

// sum adds the counts.
func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// try reports whether another owner gets the lock now; it releases the lock.
func (w *world) try(lock locker) bool {
	w.t.Helper()
	me := w.caller()
	ok, err := lock.TryLock(me)
	require.NoError(w.t, err)
	if ok {
		require.NoError(w.t, lock.Unlock(me))
	}
	return ok
}

func TestReadersOfAllClientsReadAtOnceAndKeepWritersOut(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client().NewReadWriteLock(key), s.client().NewReadWriteLock(key)
		a, b, c := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())
		require.NoError(t, here.Read().Lock(a))
		require.NoError(t, here.Read().Lock(b))
		require.NoError(t, there.Read().Lock(c))
		for _, lock := range []*rlock.ReadWriteLock{here, there} {
			assert.False(t, s.available(lock.Write()))
			assert.True(t, s.available(lock.Read()))
		}
		require.NoError(t, here.Read().Unlock(a))
		require.NoError(t, there.Read().Unlock(c))
		assert.False(t, s.available(there.Write()))
		require.NoError(t, here.Read().Unlock(b))
		assert.True(t, s.available(there.Write()))
		assert.True(t, s.available(here.Write()))
	})
}

// available reports whether another owner gets the lock now; it releases the lock.
func (s *site) available(lock locker) bool {
	s.t.Helper()
	me := rlock.WithOwner(s.ctx, rlock.NewOwner())
	free, err := lock.TryLock(me)
	require.NoError(s.t, err)
	if free {
		require.NoError(s.t, lock.Unlock(me))
	}
	return free
}

func TestAWriterExcludesReadersAndWriters(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client().NewReadWriteLock(key), s.client().NewReadWriteLock(key)
		me := rlock.WithOwner(s.ctx, rlock.NewOwner())
		require.NoError(t, here.Write().Lock(me))
		for _, lock := range []*rlock.ReadWriteLock{here, there} {
			assert.False(t, s.available(lock.Write()))
			assert.False(t, s.available(lock.Read()))
		}
		require.NoError(t, here.Write().Unlock(me))
		for _, lock := range []*rlock.ReadWriteLock{here, there} {
			assert.True(t, s.available(lock.Write()))
			assert.True(t, s.available(lock.Read()))
		}
	})
}

func TestWaitersForReadersOrAWriterAreWokenByTheLastRelease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there, w := s.client(), s.client(), awakening{s: s}
		me := rlock.WithOwner(s.ctx, rlock.NewOwner())
		for round := range 4 { // each round has subscriptions of its own
			wakes := func(name string, holds, waits func(*rlock.ReadWriteLock) locker) {
				held := holds(here.NewReadWriteLock(name))
				require.NoError(t, held.Lock(me))
				waiter := background(func() error { return waits(there.NewReadWriteLock(name)).Do(s.ctx, nothing) })
				s.awaitWaiters(1, name)
				w.by(waiter, func() { require.NoError(t, held.Unlock(me)) })
			}
			read := func(l *rlock.ReadWriteLock) locker { return l.Read() }
			write := func(l *rlock.ReadWriteLock) locker { return l.Write() }
			wakes(fmt.Sprintf("orders:%d:rw", round), read, write)
			wakes(fmt.Sprintf("orders:%d:wr", round), write, read)
			wakes(fmt.Sprintf("orders:%d:ww", round), write, write)
		}
		w.check()
	})
}

const rwChannel = "redisson_rwlock:{orders:42}"

func nothing(context.Context) error { return nil }

func TestTheWriterMayReadAndBothLocksNest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, l.read.Lock(me))
		assert.Equal(t, 2, l.write.HoldCount(me))
		assert.Equal(t, 3, l.read.HoldCount(me))
		for range 3 {
			require.NoError(t, l.read.Unlock(me))
		}
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrNotHeld)
		assert.Equal(t, 2, l.write.HoldCount(me), "unlocking one of the two leaves the other")
		assert.False(t, w.try(l.read))
		require.NoError(t, l.write.Unlock(me))
		require.NoError(t, l.write.Unlock(me))
		require.ErrorIs(t, l.write.Unlock(me), rlock.ErrNotHeld)
		assert.Empty(t, w.Keys())
	})
}

func TestAReaderCannotBecomeAWriter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me, other := w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(me))
		refused := func() {
			t.Helper()
			synctest.Wait() // it subscribes to its own channel
			before := len(l.net.Sent(""))
			require.ErrorIs(t, l.write.Lock(me), rlock.ErrUpgrade)
			_, err := l.write.TryLock(me)
			require.ErrorIs(t, err, rlock.ErrUpgrade)
			_, err = l.write.TryLockFor(me, time.Second, 0)
			require.ErrorIs(t, err, rlock.ErrUpgrade)
			_, err = l.write.Acquire(me)
			require.ErrorIs(t, err, rlock.ErrUpgrade)
			require.ErrorIs(t, l.write.Do(me, nothing), rlock.ErrUpgrade)
			assert.Len(t, l.net.Sent(""), before, "no command is sent")
		}
		refused()
		require.NoError(t, l.read.Lock(other))
		refused()
		require.NoError(t, l.read.Unlock(other))
		assert.True(t, l.read.IsHeld(me))
		require.NoError(t, l.read.Unlock(me))
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.write.Unlock(me))
	})
}

func TestADowngradeLetsWaitingReadersInEverywhereAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, here.write.Lock(me))
		require.NoError(t, here.read.Lock(me))
		var readers sync.WaitGroup
		var writers []<-chan error
		in := make(chan time.Time, 10)
		for _, l := range []rwClient{here, there} {
			for range 5 {
				reader := w.caller()
				readers.Go(func() {
					assert.NoError(t, l.read.Lock(reader))
					in <- time.Now()
					time.Sleep(time.Minute)
					assert.NoError(t, l.read.Unlock(reader))
				})
			}
			synctest.Wait()
			writers = append(writers, start(func() error { return l.write.Do(w.caller(), nothing) }))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.Empty(t, in)
		downgraded := time.Now()
		require.NoError(t, here.write.Unlock(me))
		for range 10 {
			assert.Zero(t, (<-in).Sub(downgraded))
		}
		assert.Zero(t, here.write.HoldCount(me))
		assert.True(t, here.read.IsHeld(me))
		assert.False(t, w.try(there.write))
		readers.Wait()
		for _, writer := range writers {
			assert.True(t, pending(writer), "the former writer reads on")
		}
		require.NoError(t, here.read.Unlock(me))
		for _, writer := range writers {
			require.NoError(t, <-writer)
		}
	})
}

func TestADowngradeLetsLocalReadersInThoughRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me, reader := w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		waiting := start(func() error { return l.read.Lock(reader) })
		require.True(t, pending(waiting))
		l.net.Rule(network.Silence)
		within(t, 0, 0, func() {
			require.NoError(t, l.write.Unlock(me))
			require.NoError(t, <-waiting)
			require.NoError(t, l.read.Unlock(me))
		})
		assert.True(t, l.read.IsHeld(reader))
		l.net.Heal()
		require.NoError(t, l.read.Unlock(reader))
	})
}

func TestAWriterThatHandsTheLockOffToAReaderAdmitsAllReadersBehindIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, l.write.Lock(me))
		released := evalshas(l.releases())
		var results []<-chan error
		readers := []context.Context{w.caller(), w.caller(), w.caller()}
		for _, reader := range readers {
			results = append(results, start(func() error { return l.read.Lock(reader) }))
			require.True(t, pending(results[0]))
		}
		last := w.caller()
		writer := start(func() error { return l.write.Lock(last) })
		require.True(t, pending(writer))
		behind := w.caller()
		late := start(func() error { return l.read.Lock(behind) })
		require.True(t, pending(late))

		require.NoError(t, l.write.Unlock(me))
		for _, result := range results {
			require.NoError(t, <-result)
		}
		assert.Equal(t, released, evalshas(l.releases()), "the lock was not handed off")
		assert.True(t, pending(writer))
		assert.True(t, pending(late), "a reader behind a waiting writer waits")
		time.Sleep(2 * time.Millisecond)
		assert.True(t, w.try(there.read), "readers of other clients read")
		assert.False(t, w.try(there.write))
		for _, reader := range readers {
			require.NoError(t, l.read.Unlock(reader))
		}
		require.NoError(t, <-writer)
		assert.Equal(t, released+1, evalshas(l.releases()), "other clients may have read meanwhile, so the lock is released in Redis")
		assert.True(t, pending(late))
		require.NoError(t, l.write.Unlock(last))
		require.NoError(t, <-late)
		require.NoError(t, l.read.Unlock(behind))
	})
}

func TestWritersOfOneProcessHandTheLockOffWithoutTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.write.Lock(me))
		var all sync.WaitGroup
		for range 20 {
			writer := w.caller()
			all.Go(func() {
				assert.NoError(t, l.write.Lock(writer))
				assert.NoError(t, l.write.Unlock(writer))
			})
		}
		synctest.Wait()
		require.NoError(t, l.write.Unlock(me))
		all.Wait()
		assert.Equal(t, 1, evalshas(l.acquires()))
		assert.Equal(t, 1, evalshas(l.releases()))
	})
}

func TestEachOfTheTwoLocksIsFreedByForceOnlyByItself(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client().NewReadWriteLock(key), s.client().NewReadWriteLock(key)
		me, other := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())
		force := func(lock locker, want bool) {
			t.Helper()
			forced, err := lock.ForceUnlock(s.ctx)
			require.NoError(t, err)
			assert.Equal(t, want, forced)
		}
		force(here.Read(), false)
		force(here.Write(), false)

		require.NoError(t, here.Write().Lock(me))
		require.NoError(t, here.Read().Lock(me))
		force(there.Read(), false)
		assert.False(t, s.available(there.Read()))
		force(there.Write(), true)
		assert.True(t, s.available(there.Write()))
		_, err := here.Write().ForceUnlock(s.ctx)
		require.NoError(t, err)

		client := s.client().NewReadWriteLock(key)
		require.NoError(t, client.Read().Lock(me))
		hold, err := client.Read().Acquire(s.ctx)
		require.NoError(t, err)
		require.NoError(t, there.Read().Lock(other))
		force(client.Write(), false)
		assert.False(t, s.available(there.Write()))
		force(client.Read(), true)
		assert.True(t, s.available(s.client().NewReadWriteLock(key).Write()))
		assert.ErrorIs(t, client.Read().Unlock(me), rlock.ErrLost, "the holder of the same client knows at once")
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.ErrorIs(t, there.Read().Unlock(other), rlock.ErrLost)
	})
}

func TestEveryClientSeesReadersAndWriters(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client(withLease(time.Hour)).NewReadWriteLock(key), s.client().NewReadWriteLock(key)
		me, other := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())
		see := func(read, write bool) {
			t.Helper()
			for _, lock := range []*rlock.ReadWriteLock{here, there} {
				require.Eventually(t, func() bool { // a nested lock is mirrored later
					isRead, err := lock.Read().IsLocked(s.ctx)
					isWritten, failed := lock.Write().IsLocked(s.ctx)
					return err == nil && failed == nil && isRead == read && isWritten == write
				}, hang, time.Millisecond, "read %v, written %v", read, write)
			}
			assert.Equal(t, read, here.Read().IsHeld(me))
			assert.Equal(t, write, here.Write().IsHeld(me))
			assert.False(t, here.Read().IsHeld(other))
			assert.False(t, here.Write().IsHeld(other))
		}
		see(false, false)
		require.NoError(t, here.Write().Lock(me))
		see(false, true)
		require.NoError(t, here.Read().Lock(me))
		see(true, true)
		require.NoError(t, here.Write().Unlock(me))
		see(true, false)
		left, err := there.Read().TTL(s.ctx)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, left, float64(time.Minute))
		require.NoError(t, here.Read().Unlock(me))
		see(false, false)
	})
}

func TestAKeyThatIsNoReadWriteLockIsRefusedAndLeftAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, w.Set(key, "precious"))
		for _, lock := range []locker{l.read, l.write} {
			require.ErrorIs(t, lock.Lock(me), rlock.ErrWrongType)
			_, err := lock.TryLock(me)
			require.ErrorIs(t, err, rlock.ErrWrongType)
			_, err = lock.ForceUnlock(me)
			require.ErrorIs(t, err, rlock.ErrWrongType)
			_, err = lock.IsLocked(me)
			require.ErrorIs(t, err, rlock.ErrWrongType)
		}
		w.CheckGet(t, key, "precious")
		assert.Len(t, w.Keys(), 1)
		w.Del(key)
		for _, lock := range []locker{l.read, l.write} {
			require.NoError(t, lock.Lock(me))
			w.Del(key)
			require.NoError(t, w.Set(key, "precious"))
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			w.CheckGet(t, key, "precious")
			w.FlushAll()
		}
	})
}

// The client knows in which way it holds the lock before Redis is told.
func TestAWriterThatReadsHasTheReadLockAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		l.net.SetRoundTrip(20 * time.Millisecond)
		is := func(read, written bool) {
			t.Helper()
			for lock, want := range map[locker]bool{l.read: read, l.write: written} {
				locked, err := lock.IsLocked(w.ctx)
				require.NoError(t, err)
				assert.Equal(t, want, locked)
			}
		}
		require.NoError(t, l.write.Lock(me))
		is(false, true)
		require.NoError(t, l.read.Lock(me))
		is(true, true)
		time.Sleep(time.Second)
		is(true, true)
		require.NoError(t, l.write.Unlock(me))
		is(true, false)
		time.Sleep(time.Second)
		is(true, false)
		require.NoError(t, l.read.Unlock(me))
		is(false, false)
	})
}
