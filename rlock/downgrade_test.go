package rlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

func TestAWriterBecomesAReaderThoughAnotherWriterWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, elsewhere, me, writer := w.rwClient(), w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, here.write.Lock(me))
		waiting := start(func() error { return there.write.Lock(writer) })
		require.True(t, pending(waiting))
		time.Sleep(time.Minute)
		require.NoError(t, here.read.Lock(me))
		require.NoError(t, here.write.Unlock(me))
		require.True(t, pending(waiting))
		time.Sleep(time.Minute)
		assert.True(t, here.read.IsHeld(me))
		assert.False(t, w.try(elsewhere.read), "the waiting writer holds new readers back")
		within(t, 0, 0, func() {
			require.NoError(t, here.read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, there.write.Unlock(writer))
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
