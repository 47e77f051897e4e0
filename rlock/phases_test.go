package rlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

const late = 25 * time.Millisecond // a sleeping waiter's delay

// Readers and writers take turns: later readers do not pass a waiting writer.

// Their turns end at different times, so that one of them always reads.
func TestAWriterIsNotStarvedByTheReadersOfManyClients(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const clients, reading, between = 6, 50 * time.Millisecond, 20 * time.Millisecond
		end := time.Now().Add(3 * time.Second)
		rwClients := make([]rwClient, clients)
		for i := range rwClients {
			rwClients[i] = w.rwClient()
		}
		readers := readWithoutEnd(w, rwClients, 3, [2]time.Duration{7 * time.Millisecond, 13 * time.Millisecond}, reading, end)
		writes, longest := writeUntil(w, w.rwClient(), between, end)
		reads := sum(readers())
		t.Logf("%d writes, the longest wait %v; %d reads", writes, longest, reads)
		assert.Less(t, longest, 5*reading)
		assert.Greater(t, writes, 15)
		assert.Greater(t, reads, 150, "readers get their turns, too")
	})
}

func TestAWaitingWriterBlocksReadersOfOtherClientsAndNoActiveReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, elsewhere := w.rwClient(), w.rwClient(), w.rwClient()
		me, writer, other := w.caller(), w.caller(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.True(t, w.try(elsewhere.read))
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		assert.True(t, w.try(reading.read), "a reader of the reading client joins until their turn ends")
		reader := start(func() error { return elsewhere.read.Lock(other) })
		for range 100 { // the queue's marks expire, and others follow
			time.Sleep(300 * time.Millisecond)
			require.False(t, w.try(elsewhere.read), "readers of a waiting client wait")
			require.False(t, w.try(writing.read), "readers of the writer's client wait")
		}
		require.False(t, w.try(w.rwClient().read), "readers of a new client wait")
		ok, err := w.rwClient().read.TryLockFor(w.caller(), 10*time.Second, 0)
		require.NoError(t, err)
		assert.False(t, ok)
		require.NoError(t, reading.read.Lock(me), "an active reader may nest")
		require.NoError(t, reading.read.Unlock(me))
		assert.False(t, w.try(reading.read), "the turn has ended")

		require.True(t, pending(waiting))
		require.True(t, pending(reader))
		within(t, 0, 0, func() {
			require.NoError(t, reading.read.Unlock(me))
			require.NoError(t, <-waiting)
			require.NoError(t, writing.write.Unlock(writer))
			require.NoError(t, <-reader)
		})
		require.NoError(t, elsewhere.read.Unlock(other))
		assert.Empty(t, w.Keys())
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

// Redisson's readers ignore waiting writers. One of them always reads.
func TestAWriterThatForeignReadersStarveStarvesNoReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const java, reading, least = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", 50 * time.Millisecond, 30 * time.Second
		w.HSet(key, "mode", "read", java, "1")
		w.SetTTL(key, time.Hour)
		require.NoError(t, w.Set("{"+key+"}:"+java+":rwlock_timeout:1", "1"))
		w.SetTTL("{"+key+"}:"+java+":rwlock_timeout:1", time.Hour)

		writing, writer := w.rwClient(), w.caller()
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		var readers sync.WaitGroup
		read := func(l rwClient) (longest *time.Duration, reads *int) {
			longest, reads = new(time.Duration), new(int)
			me, end := w.caller(), time.Now().Add(least)
			readers.Go(func() {
				for ; time.Now().Before(end); *reads++ {
					asked := time.Now()
					ok, err := l.read.TryLockFor(me, 10*time.Second, 0)
					*longest = max(*longest, time.Since(asked))
					if !assert.NoError(t, err) || !ok {
						continue
					}
					time.Sleep(reading)
					assert.NoError(t, l.read.Unlock(me))
				}
			})
			return longest, reads
		}
		longestThere, readsThere := read(w.rwClient())
		longestBeside, readsBeside := read(writing)
		readers.Wait()
		t.Logf("elsewhere %d reads, the longest wait %v; in the writer's client %d, %v", *readsThere, *longestThere, *readsBeside, *longestBeside)
		assert.LessOrEqual(t, *longestThere, 2*time.Second+late, "the writer holds readers back for two seconds")
		assert.Greater(t, *longestThere, time.Second, "the writer holds readers back")
		assert.Greater(t, *readsThere, int(least/reading)/4)
		assert.LessOrEqual(t, *longestBeside, 3*time.Second+late)
		assert.GreaterOrEqual(t, *readsBeside, int(least/(3*time.Second)))

		require.True(t, pending(waiting))
		w.Del(key)
		within(t, 0, 3*time.Second, func() { require.NoError(t, <-waiting) })
		require.NoError(t, writing.write.Unlock(writer))
		w.Del("{" + key + "}:" + java + ":rwlock_timeout:1")
		time.Sleep(time.Minute) // until clients of Redisson are forgotten
		assert.Empty(t, w.Keys())
	})
}
