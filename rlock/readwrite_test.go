package rlock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
