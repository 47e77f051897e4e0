package rlock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Readers hold back for others that wait, and for no longer than these do.

// refusedUntil tries the lock every 100 ms for so long. It returns when it was refused last,
// counted from the call.
func (w *world) refusedUntil(lock locker, long time.Duration) (last time.Duration) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < long; time.Sleep(100 * time.Millisecond) {
		if !w.try(lock) {
			last = time.Since(began)
		}
	}
	return last
}

// The client that reads learns of the writer by a mirror.
func TestReadersAreNotRefusedForLongOnceAWriterHasGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.rwClient(), w.rwClient()
		require.NoError(t, here.read.Lock(w.caller()))
		time.Sleep(time.Second)
		writes := start(func() error {
			_, err := there.write.TryLockFor(w.caller(), 50*time.Millisecond, 0)
			return err
		})
		time.Sleep(20 * time.Millisecond)
		require.True(t, w.try(here.read), "its mirror finds the writer")
		require.NoError(t, <-writes)
		require.False(t, w.try(here.read))
		assert.Less(t, w.refusedUntil(here.read, 20*time.Second), 1200*time.Millisecond)
	})
}

// The client that reads is called, since its lock may linger.
func TestReadersAreNotRefusedForLongOnceAWriterWasRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.lingerer(time.Second).NewReadWriteLock(key), w.rwClient()
		require.NoError(t, here.Read().Lock(w.caller()))
		time.Sleep(time.Second)
		require.True(t, w.try(here.Read()))
		require.False(t, w.try(there.write))
		time.Sleep(50 * time.Millisecond)
		require.False(t, w.try(here.Read()))
		assert.Less(t, w.refusedUntil(here.Read(), 20*time.Second), 1200*time.Millisecond)
	})
}

// Readers that were granted the lock by the queue have left their marks there.
func TestAReaderIsNotRefusedBesideReadersForWhichNobodyWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		writes, reads, late, me := w.rwClient(), w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, writes.write.Lock(me))
		granted := start(func() error { return reads.read.Lock(w.caller()) })
		require.True(t, pending(granted))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, writes.write.Unlock(me))
		require.NoError(t, <-granted)
		require.Contains(t, w.Keys(), "rlock_queue:{orders:42}rw", "it has the mark")
		assert.Zero(t, w.refusedUntil(late.read, 20*time.Second))
		assert.False(t, w.try(late.write))
	})
}

// The ticket of the writer joins the queue with the release of a reader. Readers of Redisson keep
// the writer out, and it gives way to a reader of its client.
func TestAWriterThatGaveWayWhenItJoinedWithAReleaseKeepsItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, first, second, writer := w.rwClient(), w.rwClient(), w.caller(), w.caller(), w.caller()
		require.NoError(t, there.write.Lock(writer))
		reads := start(func() error { return l.read.Lock(first) })
		require.True(t, pending(reads))
		require.NoError(t, there.write.Unlock(writer))
		require.NoError(t, <-reads)
		require.Contains(t, w.PubSubChannels("*"), "rlock_turn:{orders:42}rw:"+l.ID(), "it stays subscribed")

		const timeout = "{orders:42}:" + foreignOwner + ":rwlock_timeout:1"
		w.HSet(key, foreignOwner, "1")
		require.NoError(t, w.Set(timeout, "1"))
		w.SetTTL(timeout, time.Hour)
		w.SetTTL(key, time.Hour)
		held := start(func() error {
			_, err := there.write.TryLockFor(w.caller(), 2100*time.Millisecond, 0)
			return err
		})
		time.Sleep(time.Second)
		writes := start(func() error { return l.write.Lock(writer) })
		require.True(t, pending(writes))
		alsoReads := start(func() error { return l.read.Lock(second) })
		require.True(t, pending(alsoReads))
		require.NoError(t, <-held)
		require.LessOrEqual(t, w.heldBack(), time.Duration(0), "readers may begin")
		require.NoError(t, l.read.Unlock(first))
		require.NoError(t, <-alsoReads)

		time.Sleep(90 * time.Second)
		assert.True(t, w.Exists("rlock_queue:{orders:42}rw"), "the writer waits there")
		w.HDel(key, foreignOwner)
		within(t, 0, 200*time.Millisecond, func() { // a turn of guests
			require.NoError(t, l.read.Unlock(second))
			require.NoError(t, <-writes)
		})
		require.NoError(t, l.write.Unlock(writer))
	})
}

// A writer elsewhere is there for most of the time, but for a moment again and again. Readers of
// other clients are granted the lock in between.
func TestAReaderIsNotStarvedByWritersThatWaitForAMoment(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, writers, me := w.rwClient(), w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, here.read.Lock(me), "it reads all the time")
		end := time.Now().Add(30 * time.Second)
		read := func(l rwClient, longest *time.Duration) func() {
			return func() {
				for time.Now().Before(end) {
					began := time.Now()
					assert.NoError(t, l.read.Do(w.caller(), func(context.Context) error {
						*longest = max(*longest, time.Since(began))
						time.Sleep(7 * time.Millisecond)
						return nil
					}))
				}
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			for time.Now().Before(end) {
				got, err := writers.write.TryLockFor(w.caller(), 100*time.Millisecond, 0)
				assert.NoError(t, err)
				assert.False(t, got)
				time.Sleep(10 * time.Millisecond)
			}
		})
		var longestHere, longestThere time.Duration
		all.Go(read(here, &longestHere))
		all.Go(read(there, &longestThere))
		all.Wait()
		t.Logf("the longest wait: %v where others read, %v elsewhere", longestHere, longestThere)
		assert.Less(t, longestHere, 1500*time.Millisecond)
		assert.Less(t, longestThere, 500*time.Millisecond)
		require.NoError(t, here.read.Unlock(me))
	})
}

// heldBack returns for how long foreign readers have ours held back yet, as the scripts read it.
func (w *world) heldBack() time.Duration {
	since, err := strconv.ParseInt(w.HGet("rlock_foreign:{orders:42}rw", "w"), 10, 64)
	if err != nil {
		return 2 * time.Second // it has not begun
	}
	return time.UnixMilli(since).Add(2 * time.Second).Sub(time.Now().Truncate(time.Millisecond))
}
