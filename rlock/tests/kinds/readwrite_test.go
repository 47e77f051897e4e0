package kinds_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a ReadWriteLock adds to other locks. The tests over all kinds cover each of its two
// locks.

func TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		a, b, c := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		available := func(read, write bool) {
			t.Helper()
			for _, lock := range []*rlock.ReadWriteLock{here, there} {
				assert.Equal(t, read, s.IsFree(lock.Read()))
				assert.Equal(t, write, s.IsFree(lock.Write()))
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
			require.ErrorIs(t, testbed.ErrorOf(l.Write.TryLock(me)), rlock.ErrUpgrade)
			require.ErrorIs(t, testbed.ErrorOf(l.Write.TryLockFor(me, time.Second, 0)), rlock.ErrUpgrade)
			require.ErrorIs(t, testbed.ErrorOf(l.Write.Acquire(me)), rlock.ErrUpgrade)
			require.ErrorIs(t, l.Write.Do(me, testbed.Nothing), rlock.ErrUpgrade)
			assert.Len(t, l.Net.Sent(""), before, "no command is sent")
		}
		refused()
		require.NoError(t, l.Read.Lock(other))
		refused()
		require.NoError(t, l.Read.Unlock(other))
		assert.True(t, l.Read.IsHeld(me))
		require.NoError(t, l.Read.Unlock(me))
		require.NoError(t, l.Write.Do(me, testbed.Nothing))
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
			if want[id] != count || !strings.HasPrefix(uuid, inspect.Of(client).ID()) || err != nil || reads != (lives > 0) {
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

		require.NoError(t, l.Write().Do(mine, testbed.Nothing))
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

// Two clients read. One of them dies; the other renews its own lease only.
func TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		alive, dead, l := w.NewRWClient(), w.NewRWClient(), w.NewRWClient()
		me := w.Caller()
		require.NoError(t, dead.Read.Lock(w.Caller()))
		require.NoError(t, alive.Read.Lock(me))
		dead.Net.Refuse()
		writer := w.Caller()
		waiting := testbed.Start(func() error { return l.Write.Lock(writer) })
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(waiting), "the living client reads")
		assert.Len(t, w.Keys(), 3, "the hash, one reader's key, and that of the waiting writer")
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, alive.Read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.Write.Unlock(writer))
		assert.Empty(t, w.Keys())
	})
}

func TestADowngradeLetsWaitingReadersInEverywhereAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, here.Write.Lock(me))
		require.NoError(t, here.Read.Lock(me))
		var readers sync.WaitGroup
		var writers []<-chan error
		in := make(chan time.Time, 10)
		for _, l := range []testbed.RWClient{here, there} {
			for range 5 {
				reader := w.Caller()
				readers.Go(func() {
					assert.NoError(t, l.Read.Lock(reader))
					in <- time.Now()
					time.Sleep(time.Minute)
					assert.NoError(t, l.Read.Unlock(reader))
				})
			}
			synctest.Wait()
			writers = append(writers, testbed.Start(func() error { return l.Write.Do(w.Caller(), testbed.Nothing) }))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.Empty(t, in)
		downgraded := time.Now()
		require.NoError(t, here.Write.Unlock(me))
		for range 10 {
			assert.Zero(t, (<-in).Sub(downgraded))
		}
		assert.Zero(t, here.Write.HoldCount(me))
		assert.True(t, here.Read.IsHeld(me))
		assert.False(t, w.IsFree(there.Write))
		readers.Wait()
		for _, writer := range writers {
			assert.True(t, testbed.Pending(writer), "the former writer reads on")
		}
		require.NoError(t, here.Read.Unlock(me))
		testbed.Succeed(t, writers...)
	})
}

// A grant out of the queue is for two seconds. Readers keep them when another of their owners is named in Redis,
// also with a shorter lease: this client believes the grant.
func TestAReaderIsShownForAsLongAsTheOwnerBeforeIt(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, q := w.NewClient(testbed.WithLease(500*time.Millisecond)), w.NewClient()
		read, write := p.NewReadWriteLock(testbed.Key).Read(), q.NewReadWriteLock(testbed.Key).Write()
		writer := testbed.Take(t, w.Ctx, write)
		first := make(chan *rlock.Hold)
		go func() { first <- testbed.Take(t, w.Ctx, read) }()
		synctest.Wait()
		require.NoError(t, writer.Release(w.Ctx))
		reader := <-first
		second := testbed.Take(t, w.Ctx, read)
		require.NoError(t, reader.Release(w.Ctx))
		time.Sleep(200 * time.Millisecond) // a renewal tells Redis of the second owner
		p.Net.Rule(network.Silence)
		beside := testbed.Take(t, w.Ctx, q.NewReadWriteLock(testbed.Key).Read())
		require.NoError(t, beside.Release(w.Ctx)) // the hash lasts for as long as the readers that are left

		writer = testbed.Take(t, w.Ctx, write)
		assert.False(t, second.Valid())
		assert.Error(t, second.Context().Err(), "it ends before the writer begins")
		require.NoError(t, writer.Release(w.Ctx))
		p.Net.Heal()
	})
}

// A reader that is released in its least time, or has the end of its lease moved to the front, leaves the hash to the other
// readers for as long as they read. A lease of its own that was longer must not keep writers out.
func TestALeaseThatIsShortenedBesideAnotherReaderEndsInTime(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, q := w.NewClient(testbed.WithLease(4*time.Second)), w.NewClient(testbed.WithLease(4*time.Second))
		reads, writes := p.NewReadWriteLock(testbed.Key).Read(), q.NewReadWriteLock(testbed.Key).Write()
		passed := testbed.Take(t, w.Ctx, reads)
		require.NoError(t, testbed.ErrorOf(passed.Pass(w.Ctx, 2*time.Second)))
		h := testbed.Take(t, w.Ctx, reads, rlock.WithMinHold(300*time.Millisecond))
		require.NoError(t, h.Release(w.Ctx))
		began := time.Now()
		require.NoError(t, writes.Do(w.Ctx, testbed.Nothing))
		assert.InDelta(t, 2*time.Second, time.Since(began), float64(50*time.Millisecond), "when the passed lock ends")
	})
}
