package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
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

// The keys, fields and messages of a ReadWriteLock that Redisson sees.

// awaitRW returns when the hash shows the mode and exactly these fields, "<id>" for an owner
// of the client and "<id>:write" for its write lock, and when exactly the keys of these
// readers exist. All keys have a lease.
func (s *site) awaitRW(client *rlock.Client, mode string, want map[string]string) {
	s.t.Helper()
	var last map[string]string
	require.Eventually(s.t, func() bool {
		hash, err := s.do("HGETALL", key).AsStrMap()
		last = hash
		if err != nil || len(hash) != len(want)+1 || hash["mode"] != mode {
			return false
		}
		for field, count := range hash {
			uuid, id, _ := strings.Cut(field, ":")
			if field == "mode" {
				continue
			}
			lives, err := s.do("PTTL", "{"+key+"}:"+field+":rwlock_timeout:1").AsInt64()
			reads := !strings.HasSuffix(field, ":write")
			if want[id] != count || !strings.HasPrefix(uuid, client.ID()) || err != nil || reads != (lives > 0) {
				return false
			}
		}
		return true
	}, hang, time.Millisecond, "%s %v", mode, want)
	require.Positive(s.t, s.number("PTTL", key))
	keys := 1
	for field := range last {
		if field != "mode" && !strings.HasSuffix(field, ":write") {
			keys++
		}
	}
	var found int
	for _, node := range s.nodes() {
		names, err := node.Do(s.ctx, node.B().Keys().Pattern("*orders*").Build()).AsStrSlice()
		require.NoError(s.t, err)
		for _, name := range names {
			if strings.HasPrefix(name, key) || strings.HasPrefix(name, "{"+key+"}") {
				found++
			}
		}
	}
	if s.Kind != redistest.KindSentinel && s.Kind != redistest.KindCluster { // whose replicas have the keys as well
		require.Equal(s.t, keys, found, "keys")
	}
}

func TestTheHashShowsModeReadersAndWriterAsRedissonDoes(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client(withLease(time.Hour))
		l := client.NewReadWriteLock(key)
		me, other := rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(s.ctx, me), rlock.WithOwner(s.ctx, other)
		id, write := fmt.Sprint(me), fmt.Sprint(me)+":write"

		require.NoError(t, l.Read().Lock(mine))
		s.awaitRW(client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Lock(theirs))
		require.NoError(t, l.Read().Lock(theirs))
		heard := s.listen(s.family(), rwChannel) // for the client it is a guest that waits: readers would not join
		s.awaitRW(client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Read().Unlock(theirs))
		s.awaitRW(client, "read", map[string]string{id: "1"})
		assert.Empty(t, heard.heard())
		require.NoError(t, l.Read().Unlock(theirs))
		assert.Equal(t, []string{"00"}, heard.heard())
		assert.Zero(t, s.number("EXISTS", key))

		require.NoError(t, l.Write().Lock(mine))
		s.awaitRW(client, "write", map[string]string{write: "1"})
		require.NoError(t, l.Write().Lock(mine))
		s.awaitRW(client, "write", map[string]string{write: "2"})
		require.NoError(t, l.Read().Lock(mine))
		require.NoError(t, l.Read().Lock(mine))
		s.awaitRW(client, "write", map[string]string{write: "2", id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		s.awaitRW(client, "write", map[string]string{write: "1", id: "1"})
		assert.Empty(t, heard.heard())
		require.NoError(t, l.Write().Unlock(mine))
		s.awaitRW(client, "read", map[string]string{id: "1"})
		assert.Equal(t, []string{"01"}, heard.heard(), "readers may enter")
		require.NoError(t, l.Read().Unlock(mine))
		assert.Equal(t, []string{"00"}, heard.heard())

		require.NoError(t, l.Write().Lock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		assert.Equal(t, []string{"01"}, heard.heard())
		assert.Zero(t, s.number("EXISTS", key))
	})
}

func TestReadersOfOtherClientsKeepTheHashForTheLongestLease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const java = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"
		// The script of Redisson's read lock, twice by one thread, for a minute.
		hold := func(lease time.Duration) {
			t.Helper()
			require.NoError(t, s.do("HSET", key, "mode", "read", java, "2").Error())
			for n := 1; n <= 2; n++ {
				require.NoError(t, s.do("SET", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", key, java, n), "1", "PX", fmt.Sprint(lease.Milliseconds()/int64(n))).Error())
			}
		}
		client := s.client()
		l := client.NewReadWriteLock(key)
		ms := func() int64 { return s.number("PTTL", key) }
		hold(time.Minute)
		require.NoError(t, s.do("PEXPIRE", key, "60000").Error())
		assert.False(t, s.available(l.Write()))
		require.NoError(t, l.Read().Lock(s.ctx))
		assert.Greater(t, ms(), int64(50_000), "a shorter lease must not shorten that of the hash")
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.Greater(t, ms(), int64(50_000))
		require.NoError(t, l.Read().LockFor(s.ctx, time.Hour))
		assert.Greater(t, ms(), int64(3000_000))
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.LessOrEqual(t, ms(), int64(60_000), "the lease of the other reader")
		assert.Greater(t, ms(), int64(50_000))
		assert.Equal(t, int64(2), s.number("HLEN", key))

		// The other client dies. Its field stays as long as a client renews the hash.
		require.NoError(t, l.Read().Lock(s.ctx))
		for n := 1; n <= 2; n++ {
			s.number("DEL", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", key, java, n))
		}
		heard := s.listen(s.family(), rwChannel)
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.Zero(t, s.number("EXISTS", key), "a dead client keeps the hash")
		assert.Equal(t, []string{"00"}, heard.heard())
	})
}

func TestALockOfAnotherKindKeepsReadersAndWritersOut(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client()
		l, plain := client.NewReadWriteLock(key), client.NewLock(key)
		require.NoError(t, plain.Lock(s.ctx))
		assert.False(t, s.available(l.Read()))
		assert.False(t, s.available(l.Write()))
		require.NoError(t, plain.Unlock(s.ctx))
		require.NoError(t, l.Read().Lock(s.ctx))
		assert.False(t, s.available(plain))
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.True(t, s.available(plain))
	})
}

// Redisson: testName.
func TestANameWithABraceIsUsedAsItIsForKeysAndChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const name = "{test}:abc:key"
		l := s.client().NewReadWriteLock(name)
		me := rlock.NewOwner()
		heard := s.listen(s.family(), "redisson_rwlock:"+name)
		require.NoError(t, l.Read().Lock(rlock.WithOwner(s.ctx, me)))
		hash, err := s.do("HGETALL", name).AsStrMap()
		require.NoError(t, err)
		for field := range hash {
			if field != "mode" {
				assert.Positive(t, s.number("PTTL", name+":"+field+":rwlock_timeout:1"))
			}
		}
		assert.Len(t, hash, 2)
		require.NoError(t, l.Read().Unlock(rlock.WithOwner(s.ctx, me)))
		assert.Equal(t, []string{"00"}, heard.heard())
	})
}

// The watchdog renews the reader's key with the hash, and restores one that is gone.
func TestAReadersKeyIsRenewedWithTheHash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		look := func() {
			t.Helper()
			for range 200 {
				time.Sleep(time.Second)
				keys := w.Keys()
				require.Len(t, keys, 2)
				for _, k := range keys {
					require.GreaterOrEqual(t, w.ttl(k), 20*time.Second-50*time.Millisecond)
				}
			}
		}
		look()
		require.NoError(t, l.write.Unlock(me))
		look()
		for _, k := range w.Keys() {
			if k != key {
				w.Del(k)
			}
		}
		time.Sleep(11 * time.Second)
		look()
		require.NoError(t, l.read.Unlock(me))
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}
