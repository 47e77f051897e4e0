package kinds_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A reader of Redisson keeps a writer of ours out, which gives way to a reader of its process.
// The writer looks for its ticket again before the reader joins, and then leaves.
func TestAReaderThatAWriterGaveWayToReadsOnceTheWriterHasLeft(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewReadWriteLock(testbed.Key)
		require.NoError(t, lock.Read().Do(w.Ctx, testbed.Nothing)) // the scripts are known
		require.NoError(t, lock.Write().Do(w.Ctx, testbed.Nothing))
		w.HSet(testbed.Key, "mode", "read", testbed.ForeignOwner, "1")
		w.SetTTL(testbed.Key, time.Hour)
		ctx, cancel := context.WithCancel(w.Caller())
		defer cancel()
		writes := testbed.Start(func() error { return lock.Write().Lock(ctx) })
		require.True(t, testbed.Pending(writes))
		reads := testbed.Start(func() error { return lock.Read().Lock(me) })
		require.True(t, testbed.Pending(reads))

		givesWay := make(chan struct{})
		tell := sync.OnceFunc(func() { close(givesWay) })
		p.Net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Reply && testbed.IsStep(f) && heldBack(w) <= 0 {
				tell()
				return network.Hold
			}
			return network.Pass
		})
		<-givesWay
		w.Publish("redisson_rwlock:{orders:42}", "0") // the writer is to look again
		synctest.Wait()
		w.HDel("rlock_foreign:{orders:42}rw", "w") // and gives way no longer
		p.Net.Heal()
		require.True(t, testbed.Pending(reads))
		cancel()
		require.ErrorIs(t, <-writes, context.Canceled)
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-reads) })
		require.NoError(t, lock.Read().Unlock(me))
	})
}

// Uncounted foreign clients, of which one may be a writer, have a turn when a ticket waits. No
// ticket waits here: readers hold back new ones every other second.
func TestReadersHeldBackForUncountedForeignClientsReadAgainWithinSeconds(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		polls := func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways }
		l, there := w.NewRWClient(polls), w.NewRWClient(polls)
		w.HSet(testbed.Key, "mode", "read", testbed.ForeignOwner, "1")
		w.SetTTL(testbed.Key, time.Hour)
		require.NoError(t, l.Read.Lock(w.Caller()))
		got, err := there.Write.TryLockFor(w.Caller(), 100*time.Millisecond, 0)
		require.NoError(t, err)
		require.False(t, got, "it meets the guest")
		time.Sleep(3 * time.Second)

		var longest time.Duration
		for range 30 {
			began := time.Now()
			require.NoError(t, l.Read.Do(w.Caller(), testbed.Nothing))
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		first, second, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		w.HSet(testbed.Key, "mode", "read", testbed.ForeignOwner, "1")
		w.SetTTL(testbed.Key, time.Hour)
		ctx, cancel := context.WithCancel(w.Caller())
		defer cancel()
		writes := testbed.Start(func() error { return first.Write.Lock(ctx) })
		require.True(t, testbed.Pending(writes))
		alsoWrites := testbed.Start(func() error { return second.Write.Lock(ctx) })
		require.True(t, testbed.Pending(alsoWrites))
		testbed.Within(t, time.Second, 5*time.Second, func() { require.NoError(t, second.Read.Lock(me)) })
		assert.Less(t, len(first.Net.Sent("EVALSHA")), 50, "the writer looks less and less often")
		cancel()
		require.ErrorIs(t, <-writes, context.Canceled)
		require.ErrorIs(t, <-alsoWrites, context.Canceled)
		require.NoError(t, second.Read.Unlock(me))
	})
}

// Readers hold back for others that wait, and for no longer than these do.

// refusedUntil tries the lock every 100 ms for so long. It returns when it was refused last,
// counted from the call.
func refusedUntil(w *testbed.World, lock testbed.Locker, long time.Duration) (last time.Duration) {
	w.T.Helper()
	for began := time.Now(); time.Since(began) < long; time.Sleep(100 * time.Millisecond) {
		if !w.IsFree(lock) {
			last = time.Since(began)
		}
	}
	return last
}

// The client that reads learns of the writer by a mirror.
func TestReadersAreNotRefusedForLongOnceAWriterHasGivenUp(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewRWClient(), w.NewRWClient()
		require.NoError(t, here.Read.Lock(w.Caller()))
		time.Sleep(time.Second)
		writes := testbed.Start(func() error {
			_, err := there.Write.TryLockFor(w.Caller(), 50*time.Millisecond, 0)
			return err
		})
		time.Sleep(20 * time.Millisecond)
		require.True(t, w.IsFree(here.Read), "its mirror finds the writer")
		require.NoError(t, <-writes)
		require.False(t, w.IsFree(here.Read))
		assert.Less(t, refusedUntil(w, here.Read, 20*time.Second), 1200*time.Millisecond)
	})
}

// The client that reads is called, since its lock may linger.
func TestReadersAreNotRefusedForLongOnceAWriterWasRefused(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewLingerer(time.Second).NewReadWriteLock(testbed.Key), w.NewRWClient()
		require.NoError(t, here.Read().Lock(w.Caller()))
		time.Sleep(time.Second)
		require.True(t, w.IsFree(here.Read()))
		require.False(t, w.IsFree(there.Write))
		time.Sleep(50 * time.Millisecond)
		require.False(t, w.IsFree(here.Read()))
		assert.Less(t, refusedUntil(w, here.Read(), 20*time.Second), 1200*time.Millisecond)
	})
}

// Readers that were granted the lock by the queue have left their marks there.
func TestAReaderIsNotRefusedBesideReadersWithoutAWaiter(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		writes, reads, late, me := w.NewRWClient(), w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, writes.Write.Lock(me))
		granted := testbed.Start(func() error { return reads.Read.Lock(w.Caller()) })
		require.True(t, testbed.Pending(granted))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, writes.Write.Unlock(me))
		require.NoError(t, <-granted)
		require.Contains(t, w.Keys(), "rlock_queue:{orders:42}rw", "it has the mark")
		assert.Zero(t, refusedUntil(w, late.Read, 20*time.Second))
		assert.False(t, w.IsFree(late.Write))
	})
}

func TestATryLockOfAWriterHoldsNoReaderBack(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		reading, writing, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, reading.Read.Lock(me))
		assert.False(t, w.IsFree(writing.Write))
		_, err := writing.Write.Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.True(t, w.IsFree(w.NewRWClient().Read))
		require.NoError(t, reading.Read.Unlock(me))
	})
}
