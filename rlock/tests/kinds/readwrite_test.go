package kinds_test

import (
	"fmt"
	"strings"
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

func TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		a, b, c := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		available := func(read, write bool) {
			t.Helper()
			for _, lock := range []*rlock.ReadWriteLock{here, there} {
				assert.Equal(t, read, s.Available(lock.Read()))
				assert.Equal(t, write, s.Available(lock.Write()))
			}
		}
		require.NoError(t, here.Read().Lock(a))
		require.NoError(t, here.Read().Lock(b))
		require.NoError(t, there.Read().Lock(c))
		available(true, false)
		require.NoError(t, here.Read().Unlock(a))
		require.NoError(t, there.Read().Unlock(c))
		available(true, false)
		require.NoError(t, here.Read().Unlock(b))
		available(true, true)
		require.NoError(t, here.Write().Lock(a))
		available(false, false)
		require.NoError(t, here.Write().Unlock(a))
		available(true, true)
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		see := func(read, write bool) {
			t.Helper()
			for range 2 { // at once, and when Redis shows it
				for _, l := range []testbed.RWClient{here, there} {
					isRead, err := l.Read.IsLocked(w.Ctx)
					require.NoError(t, err)
					isWritten, err := l.Write.IsLocked(w.Ctx)
					require.NoError(t, err)
					assert.Equal(t, []bool{read, write}, []bool{isRead, isWritten})
				}
				time.Sleep(time.Second)
			}
			assert.Equal(t, []bool{read, write}, []bool{here.Read.IsHeld(me), here.Write.IsHeld(me)})
			assert.False(t, here.Read.IsHeld(w.Caller()))
		}
		see(false, false)
		require.NoError(t, here.Write.Lock(me))
		see(false, true)
		require.NoError(t, here.Read.Lock(me))
		synctest.Wait()
		see(true, true)
		require.NoError(t, here.Write.Unlock(me))
		synctest.Wait()
		see(true, false)
		require.NoError(t, here.Read.Unlock(me))
		see(false, false)
	})
}

func TestALockOfAnotherKindKeepsReadersAndWritersOut(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		plain := l.NewLock(testbed.Key)
		require.NoError(t, plain.Lock(me))
		assert.False(t, w.IsFree(l.Read))
		assert.False(t, w.IsFree(l.Write))
		require.NoError(t, plain.Unlock(me))
		require.NoError(t, l.Read.Lock(me))
		assert.False(t, w.IsFree(plain))
		require.NoError(t, l.Read.Unlock(me))
		assert.True(t, w.IsFree(plain))
	})
}

// awaitRW returns when the hash shows the mode and exactly these fields, "<id>" for a reader of the client and
// "<id>:write" for a writer. Each reader has a key with a lease, and so has the hash.
func awaitRW(s *testbed.Site, client *rlock.Client, mode string, want map[string]string) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		hash, err := s.Do("HGETALL", testbed.Key).AsStrMap()
		if err != nil || len(hash) != len(want)+1 || hash["mode"] != mode {
			return false
		}
		delete(hash, "mode")
		for field, count := range hash {
			uuid, id, _ := strings.Cut(field, ":")
			lives, err := s.Do("PTTL", "{"+testbed.Key+"}:"+field+":rwlock_timeout:1").AsInt64()
			reads := !strings.HasSuffix(field, ":write")
			if want[id] != count || !strings.HasPrefix(uuid, client.ID()) || err != nil || reads != (lives > 0) {
				return false
			}
		}
		return true
	}, testbed.Hang, time.Millisecond, "%s %v", mode, want)
	require.Positive(s.T, s.Number("PTTL", testbed.Key))
}

// The keys, fields and messages of a ReadWriteLock that Redisson sees.

func TestTheHashShowsModeReadersAndWriterAsRedissonDoes(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient(testbed.WithLease(time.Hour))
		l := client.NewReadWriteLock(testbed.Key)
		me, other := rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(s.Ctx, me), rlock.WithOwner(s.Ctx, other)
		id, write := fmt.Sprint(me), fmt.Sprint(me)+":write"

		require.NoError(t, l.Read().Lock(mine))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Lock(theirs))
		require.NoError(t, l.Read().Lock(theirs))
		heard := s.Listen(s.Family(), testbed.RWChannel) // for the client it is a guest that waits: readers would not join
		awaitRW(s, client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Read().Unlock(theirs))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		assert.Empty(t, heard.Heard())
		require.NoError(t, l.Read().Unlock(theirs))
		assert.Equal(t, []string{"00"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))

		require.NoError(t, l.Write().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "1"})
		require.NoError(t, l.Write().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "2"})
		require.NoError(t, l.Read().Lock(mine))
		require.NoError(t, l.Read().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "2", id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		awaitRW(s, client, "write", map[string]string{write: "1", id: "1"})
		assert.Empty(t, heard.Heard())
		require.NoError(t, l.Write().Unlock(mine))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		assert.Equal(t, []string{"01"}, heard.Heard(), "readers may enter")
		require.NoError(t, l.Read().Unlock(mine))
		assert.Equal(t, []string{"00"}, heard.Heard())

		require.NoError(t, l.Write().Lock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		assert.Equal(t, []string{"01"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

// The watchdog renews the reader's key with the hash, and restores one that is gone.
func TestAReadersKeyIsRenewedWithTheHash(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		require.NoError(t, l.Read.Lock(me))
		lives := func() {
			t.Helper()
			for range 60 {
				time.Sleep(time.Second)
				keys := w.Keys()
				require.Len(t, keys, 2)
				for _, k := range keys {
					require.GreaterOrEqual(t, w.Remaining(k), 20*time.Second-50*time.Millisecond)
				}
			}
		}
		lives()
		require.NoError(t, l.Write.Unlock(me))
		lives()
		for _, k := range w.Keys() {
			if k != testbed.Key {
				w.Del(k)
			}
		}
		time.Sleep(11 * time.Second)
		lives()
		require.NoError(t, l.Read.Unlock(me))
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}
