package kinds_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a ReadWriteLock adds to other locks. The tests over all kinds cover each of its two
// locks; readers_test.go covers shared tenures.

func TestReadersOfAllClientsReadAtOnceAndKeepWritersOut(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		a, b, c := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		require.NoError(t, here.Read().Lock(a))
		require.NoError(t, here.Read().Lock(b))
		require.NoError(t, there.Read().Lock(c))
		for _, lock := range []*rlock.ReadWriteLock{here, there} {
			assert.False(t, s.Available(lock.Write()))
			assert.True(t, s.Available(lock.Read()))
		}
		require.NoError(t, here.Read().Unlock(a))
		require.NoError(t, there.Read().Unlock(c))
		assert.False(t, s.Available(there.Write()))
		require.NoError(t, here.Read().Unlock(b))
		assert.True(t, s.Available(there.Write()))
		assert.True(t, s.Available(here.Write()))
	})
}

func TestAWriterExcludesReadersAndWriters(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		require.NoError(t, here.Write().Lock(me))
		for _, lock := range []*rlock.ReadWriteLock{here, there} {
			assert.False(t, s.Available(lock.Write()))
			assert.False(t, s.Available(lock.Read()))
		}
		require.NoError(t, here.Write().Unlock(me))
		for _, lock := range []*rlock.ReadWriteLock{here, there} {
			assert.True(t, s.Available(lock.Write()))
			assert.True(t, s.Available(lock.Read()))
		}
	})
}

func TestWaitersForReadersOrAWriterAreWokenByTheLastRelease(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there, w := s.NewClient(), s.NewClient(), testbed.Awakening{Site: s}
		me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
		for round := range 4 { // each round has subscriptions of its own
			wakes := func(name string, holds, waits func(*rlock.ReadWriteLock) testbed.Locker) {
				held := holds(here.NewReadWriteLock(name))
				require.NoError(t, held.Lock(me))
				waiter := testbed.Start(func() error { return waits(there.NewReadWriteLock(name)).Do(s.Ctx, testbed.Nothing) })
				s.AwaitWaiters(1, name)
				w.By(waiter, func() { require.NoError(t, held.Unlock(me)) })
			}
			read := func(l *rlock.ReadWriteLock) testbed.Locker { return l.Read() }
			write := func(l *rlock.ReadWriteLock) testbed.Locker { return l.Write() }
			wakes(fmt.Sprintf("orders:%d:rw", round), read, write)
			wakes(fmt.Sprintf("orders:%d:wr", round), write, read)
			wakes(fmt.Sprintf("orders:%d:ww", round), write, write)
		}
		w.Check()
	})
}

func TestTheWriterMayReadAndBothLocksNest(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		require.NoError(t, l.Read.Lock(me))
		require.NoError(t, l.Write.Lock(me))
		require.NoError(t, l.Read.Lock(me))
		require.NoError(t, l.Read.Lock(me))
		assert.Equal(t, 2, l.Write.HoldCount(me))
		assert.Equal(t, 3, l.Read.HoldCount(me))
		for range 3 {
			require.NoError(t, l.Read.Unlock(me))
		}
		require.ErrorIs(t, l.Read.Unlock(me), rlock.ErrNotHeld)
		assert.Equal(t, 2, l.Write.HoldCount(me), "unlocking one of the two leaves the other")
		assert.False(t, w.IsFree(l.Read))
		require.NoError(t, l.Write.Unlock(me))
		require.NoError(t, l.Write.Unlock(me))
		require.ErrorIs(t, l.Write.Unlock(me), rlock.ErrNotHeld)
		assert.Empty(t, w.Keys())
	})
}

func TestAReaderCannotBecomeAWriter(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me, other := w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, l.Read.Lock(me))
		refused := func() {
			t.Helper()
			synctest.Wait() // it subscribes to its own channel
			before := len(l.Net.Sent(""))
			require.ErrorIs(t, l.Write.Lock(me), rlock.ErrUpgrade)
			_, err := l.Write.TryLock(me)
			require.ErrorIs(t, err, rlock.ErrUpgrade)
			_, err = l.Write.TryLockFor(me, time.Second, 0)
			require.ErrorIs(t, err, rlock.ErrUpgrade)
			_, err = l.Write.Acquire(me)
			require.ErrorIs(t, err, rlock.ErrUpgrade)
			require.ErrorIs(t, l.Write.Do(me, testbed.Nothing), rlock.ErrUpgrade)
			assert.Len(t, l.Net.Sent(""), before, "no command is sent")
		}
		refused()
		require.NoError(t, l.Read.Lock(other))
		refused()
		require.NoError(t, l.Read.Unlock(other))
		assert.True(t, l.Read.IsHeld(me))
		require.NoError(t, l.Read.Unlock(me))
		require.NoError(t, l.Write.Lock(me))
		require.NoError(t, l.Write.Unlock(me))
	})
}

func TestEveryClientSeesReadersAndWriters(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient(testbed.WithLease(time.Hour)).NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		me, other := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		see := func(read, write bool) {
			t.Helper()
			for _, lock := range []*rlock.ReadWriteLock{here, there} {
				require.Eventually(t, func() bool { // a nested lock is mirrored later
					isRead, err := lock.Read().IsLocked(s.Ctx)
					isWritten, failed := lock.Write().IsLocked(s.Ctx)
					return err == nil && failed == nil && isRead == read && isWritten == write
				}, testbed.Hang, time.Millisecond, "read %v, written %v", read, write)
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
		left, err := there.Read().TTL(s.Ctx)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, left, float64(time.Minute))
		require.NoError(t, here.Read().Unlock(me))
		see(false, false)
	})
}

func TestAKeyThatIsNoReadWriteLockIsRefusedAndLeftAsItIs(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, w.Set(testbed.Key, "precious"))
		for _, lock := range []testbed.Locker{l.Read, l.Write} {
			require.ErrorIs(t, lock.Lock(me), rlock.ErrWrongType)
			_, err := lock.TryLock(me)
			require.ErrorIs(t, err, rlock.ErrWrongType)
			_, err = lock.ForceUnlock(me)
			require.ErrorIs(t, err, rlock.ErrWrongType)
			_, err = lock.IsLocked(me)
			require.ErrorIs(t, err, rlock.ErrWrongType)
		}
		w.CheckGet(t, testbed.Key, "precious")
		assert.Len(t, w.Keys(), 1)
		w.Del(testbed.Key)
		for _, lock := range []testbed.Locker{l.Read, l.Write} {
			require.NoError(t, lock.Lock(me))
			w.Del(testbed.Key)
			require.NoError(t, w.Set(testbed.Key, "precious"))
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			w.CheckGet(t, testbed.Key, "precious")
			w.FlushAll()
		}
	})
}

func TestALockOfAnotherKindKeepsReadersAndWritersOut(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		l, plain := client.NewReadWriteLock(testbed.Key), client.NewLock(testbed.Key)
		require.NoError(t, plain.Lock(s.Ctx))
		assert.False(t, s.Available(l.Read()))
		assert.False(t, s.Available(l.Write()))
		require.NoError(t, plain.Unlock(s.Ctx))
		require.NoError(t, l.Read().Lock(s.Ctx))
		assert.False(t, s.Available(plain))
		require.NoError(t, l.Read().Unlock(s.Ctx))
		assert.True(t, s.Available(plain))
	})
}
