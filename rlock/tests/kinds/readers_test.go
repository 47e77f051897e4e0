package kinds_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The readers of one client share a tenure.

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

// The client that reads learns of the writer by a mirror, or is called, since its lock may linger.
func TestReadersAreNotRefusedForLongOnceAWriterHasLeft(t *testing.T) {
	for name, linger := range map[string]time.Duration{"a mirror": 0, "a call": time.Second} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				here, there := w.NewLingerer(linger).NewReadWriteLock(testbed.Key).Read(), w.NewRWClient()
				require.NoError(t, here.Lock(w.Caller()))
				time.Sleep(time.Second)
				writes := testbed.Start(func() error {
					_, err := there.Write.TryLockFor(w.Caller(), 50*time.Millisecond, 0)
					return err
				})
				time.Sleep(20 * time.Millisecond)
				if linger == 0 {
					require.True(t, w.IsFree(here), "its mirror finds the writer")
				}
				require.NoError(t, <-writes)
				require.False(t, w.IsFree(here))
				assert.Less(t, refusedUntil(w, here, 20*time.Second), 1200*time.Millisecond)
			})
		})
	}
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
		for _, writer := range writers {
			require.NoError(t, <-writer)
		}
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
