package rlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A reader of Redisson keeps a writer of ours out, which gives way to a reader of its process.
// The writer looks for its ticket again before the reader joins, and then leaves.
func TestAReaderThatAWriterGaveWayToReadsOnceTheWriterHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewReadWriteLock(key)
		require.NoError(t, lock.Read().Do(w.ctx, nothing)) // the scripts are known
		require.NoError(t, lock.Write().Do(w.ctx, nothing))
		w.HSet(key, "mode", "read", foreignOwner, "1")
		w.SetTTL(key, time.Hour)
		ctx, cancel := context.WithCancel(w.caller())
		defer cancel()
		writes := start(func() error { return lock.Write().Lock(ctx) })
		require.True(t, pending(writes))
		reads := start(func() error { return lock.Read().Lock(me) })
		require.True(t, pending(reads))

		givesWay := make(chan struct{})
		tell := sync.OnceFunc(func() { close(givesWay) })
		p.net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Reply && isStep(f) && w.heldBack() <= 0 {
				tell()
				return network.Hold
			}
			return network.Pass
		})
		<-givesWay
		w.Publish("redisson_rwlock:{orders:42}", "0") // the writer is to look again
		synctest.Wait()
		w.HDel("rlock_foreign:{orders:42}rw", "w") // and gives way no longer
		p.net.Heal()
		require.True(t, pending(reads))
		cancel()
		require.ErrorIs(t, <-writes, context.Canceled)
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-reads) })
		require.NoError(t, lock.Read().Unlock(me))
	})
}

// Uncounted foreign clients, of which one may be a writer, have a turn when a ticket waits. No
// ticket waits here: readers hold back new ones every other second.
func TestReadersHeldBackForUncountedForeignClientsReadAgainWithinSeconds(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		polls := func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways }
		l, there := w.rwClient(polls), w.rwClient(polls)
		w.HSet(key, "mode", "read", foreignOwner, "1")
		w.SetTTL(key, time.Hour)
		require.NoError(t, l.read.Lock(w.caller()))
		got, err := there.write.TryLockFor(w.caller(), 100*time.Millisecond, 0)
		require.NoError(t, err)
		require.False(t, got, "it meets the guest")
		time.Sleep(3 * time.Second)

		var longest time.Duration
		for range 30 {
			began := time.Now()
			require.NoError(t, l.read.Do(w.caller(), nothing))
			longest = max(longest, time.Since(began))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Greater(t, longest, 500*time.Millisecond, "a writer would have a chance")
		assert.Less(t, longest, 3*time.Second+late, "a second until it has a ticket, and two")
	})
}

// Writers of two clients wait behind a reader of Redisson, one of them before a reader of its
// client, which has no ticket as long as the writer stands before it.
func TestAReaderBehindAWriterThatIsNotTheFirstReadsWithinSecondsBesideAReaderOfRedisson(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first, second, me := w.rwClient(), w.rwClient(), w.caller()
		w.HSet(key, "mode", "read", foreignOwner, "1")
		w.SetTTL(key, time.Hour)
		ctx, cancel := context.WithCancel(w.caller())
		defer cancel()
		writes := start(func() error { return first.write.Lock(ctx) })
		require.True(t, pending(writes))
		alsoWrites := start(func() error { return second.write.Lock(ctx) })
		require.True(t, pending(alsoWrites))
		within(t, time.Second, 5*time.Second, func() { require.NoError(t, second.read.Lock(me)) })
		assert.Less(t, len(first.net.Sent("EVALSHA")), 50, "the writer looks less and less often")
		cancel()
		require.ErrorIs(t, <-writes, context.Canceled)
		require.ErrorIs(t, <-alsoWrites, context.Canceled)
		require.NoError(t, second.read.Unlock(me))
	})
}

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
func TestAReaderIsNotRefusedBesideReadersWithoutAWaiter(t *testing.T) {
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

func TestATryLockOfAWriterHoldsNoReaderBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.False(t, w.try(writing.write))
		_, err := writing.write.Acquire(w.ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.True(t, w.try(w.rwClient().read))
		require.NoError(t, reading.read.Unlock(me))
	})
}
