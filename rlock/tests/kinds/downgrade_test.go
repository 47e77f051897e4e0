package kinds_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		for _, writer := range writers {
			require.NoError(t, <-writer)
		}
	})
}

func TestADowngradeLetsLocalReadersInThoughRedisIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me, reader := w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		require.NoError(t, l.Read.Lock(me))
		waiting := testbed.Start(func() error { return l.Read.Lock(reader) })
		require.True(t, testbed.Pending(waiting))
		l.Net.Rule(network.Silence)
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, l.Write.Unlock(me))
			require.NoError(t, <-waiting)
			require.NoError(t, l.Read.Unlock(me))
		})
		assert.True(t, l.Read.IsHeld(reader))
		l.Net.Heal()
		require.NoError(t, l.Read.Unlock(reader))
	})
}

// The client knows in which way it holds the lock before Redis is told.
func TestAWriterThatReadsHasTheReadLockAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		l.Net.SetRoundTrip(20 * time.Millisecond)
		is := func(read, written bool) {
			t.Helper()
			for lock, want := range map[testbed.Locker]bool{l.Read: read, l.Write: written} {
				locked, err := lock.IsLocked(w.Ctx)
				require.NoError(t, err)
				assert.Equal(t, want, locked)
			}
		}
		require.NoError(t, l.Write.Lock(me))
		is(false, true)
		require.NoError(t, l.Read.Lock(me))
		is(true, true)
		time.Sleep(time.Second)
		is(true, true)
		require.NoError(t, l.Write.Unlock(me))
		is(true, false)
		time.Sleep(time.Second)
		is(true, false)
		require.NoError(t, l.Read.Unlock(me))
		is(false, false)
	})
}

func TestAWriterBecomesAReaderThoughAnotherWriterWaits(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, elsewhere, me, writer := w.NewRWClient(), w.NewRWClient(), w.NewRWClient(), w.Caller(), w.Caller()
		require.NoError(t, here.Write.Lock(me))
		waiting := testbed.Start(func() error { return there.Write.Lock(writer) })
		require.True(t, testbed.Pending(waiting))
		time.Sleep(time.Minute)
		require.NoError(t, here.Read.Lock(me))
		require.NoError(t, here.Write.Unlock(me))
		require.True(t, testbed.Pending(waiting))
		time.Sleep(time.Minute)
		assert.True(t, here.Read.IsHeld(me))
		assert.False(t, w.IsFree(elsewhere.Read), "the waiting writer holds new readers back")
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, here.Read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, there.Write.Unlock(writer))
	})
}

func TestAWriterThatHandsTheLockOffToAReaderAdmitsAllReadersBehindIt(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		released := testbed.Evalshas(l.Releases())
		var results []<-chan error
		readers := []context.Context{w.Caller(), w.Caller(), w.Caller()}
		for _, reader := range readers {
			results = append(results, testbed.Start(func() error { return l.Read.Lock(reader) }))
			require.True(t, testbed.Pending(results[0]))
		}
		last := w.Caller()
		writer := testbed.Start(func() error { return l.Write.Lock(last) })
		require.True(t, testbed.Pending(writer))
		behind := w.Caller()
		late := testbed.Start(func() error { return l.Read.Lock(behind) })
		require.True(t, testbed.Pending(late))

		require.NoError(t, l.Write.Unlock(me))
		for _, result := range results {
			require.NoError(t, <-result)
		}
		assert.Equal(t, released, testbed.Evalshas(l.Releases()), "the lock was not handed off")
		assert.True(t, testbed.Pending(writer))
		assert.True(t, testbed.Pending(late), "a reader behind a waiting writer waits")
		time.Sleep(2 * time.Millisecond)
		assert.True(t, w.IsFree(there.Read), "readers of other clients read")
		assert.False(t, w.IsFree(there.Write))
		for _, reader := range readers {
			require.NoError(t, l.Read.Unlock(reader))
		}
		require.NoError(t, <-writer)
		assert.Equal(t, released+1, testbed.Evalshas(l.Releases()), "other clients may have read meanwhile, so the lock is released in Redis")
		assert.True(t, testbed.Pending(late))
		require.NoError(t, l.Write.Unlock(last))
		require.NoError(t, <-late)
		require.NoError(t, l.Read.Unlock(behind))
	})
}

func TestWritersOfOneProcessHandTheLockOffWithoutTheNetwork(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		var all sync.WaitGroup
		for range 20 {
			writer := w.Caller()
			all.Go(func() {
				assert.NoError(t, l.Write.Lock(writer))
				assert.NoError(t, l.Write.Unlock(writer))
			})
		}
		synctest.Wait()
		require.NoError(t, l.Write.Unlock(me))
		all.Wait()
		assert.Equal(t, 1, testbed.Evalshas(l.Acquires()))
		assert.Equal(t, 1, testbed.Evalshas(l.Releases()))
	})
}
