package rlock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readWithoutEnd starts each readers in each of the rwClients, which read until the end, one
// section after the other. The rwClients begin at intervals of apart[0], the readers of one
// at intervals of apart[1]. The returned function waits for them, and returns how often each
// has read.
func readWithoutEnd(w *world, rwClients []rwClient, each int, apart [2]time.Duration, section time.Duration, end time.Time) (reads func() []int) {
	counts := make([]int, each*len(rwClients))
	var all sync.WaitGroup
	for i, l := range rwClients {
		for j := range each {
			reader := w.caller()
			all.Go(func() {
				time.Sleep(time.Duration(i)*apart[0] + time.Duration(j)*apart[1])
				for ; time.Now().Before(end); counts[each*i+j]++ {
					assert.NoError(w.t, l.read.Lock(reader))
					time.Sleep(section)
					assert.NoError(w.t, l.read.Unlock(reader))
				}
			})
		}
	}
	return func() []int { all.Wait(); return counts }
}

// writeUntil writes again and again, and returns how often, and its longest wait.
func writeUntil(w *world, l rwClient, between time.Duration, end time.Time) (writes int, longest time.Duration) {
	for writer := w.caller(); time.Now().Before(end); writes++ {
		began := time.Now()
		assert.NoError(w.t, l.write.Lock(writer))
		longest = max(longest, time.Since(began))
		time.Sleep(time.Millisecond)
		assert.NoError(w.t, l.write.Unlock(writer))
		time.Sleep(between)
	}
	return writes, longest
}

func TestAWaitingWriterHoldsBackLaterReaders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, reader, writer, late := w.rwClient(), w.caller(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(reader))
		ctx, giveUp := context.WithCancel(writer)
		waiting := start(func() error { return l.write.Lock(ctx) })
		require.True(t, pending(waiting))
		joining := start(func() error { return l.read.Lock(late) })
		require.True(t, pending(joining))
		assert.False(t, w.try(l.read))
		require.NoError(t, l.read.Lock(reader), "an active reader may nest")
		require.NoError(t, l.read.Unlock(reader))

		giveUp()
		require.ErrorIs(t, <-waiting, context.Canceled)
		within(t, 0, 0, func() { require.NoError(t, <-joining) })
		assert.True(t, w.try(l.read))

		waiting = start(func() error { return l.write.Lock(writer) })
		require.True(t, pending(waiting))
		require.NoError(t, l.read.Unlock(reader))
		assert.True(t, pending(waiting))
		within(t, 0, 0, func() {
			require.NoError(t, l.read.Unlock(late))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.write.Unlock(writer))
	})
}

// Readers come and go in every process, so that one always reads.
func TestAWriterElsewhereIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		here, there, writers := w.rwClient(), w.rwClient(), w.rwClient()
		end := time.Now().Add(2 * time.Second)
		reading := readWithoutEnd(w, []rwClient{here, there}, 8, [2]time.Duration{8 * time.Millisecond, time.Millisecond}, 5*time.Millisecond, end)
		writes, longest := writeUntil(w, writers, 10*time.Millisecond, end)
		reads := sum(reading())
		commands := evalshas(here.net.Sent("")) + evalshas(there.net.Sent("")) + evalshas(writers.net.Sent(""))
		t.Logf("%d writes, the longest wait %v; %d reads; %d commands", writes, longest, reads, commands)
		assert.Less(t, longest, time.Second)
		assert.Greater(t, writes, 8)
		assert.Greater(t, reads, 700)
		assert.Less(t, commands, reads)
	})
}

const late = 25 * time.Millisecond // a sleeping waiter's delay

// Readers and writers take turns: later readers do not pass a waiting writer.

// Their turns end at different times, so that one of them always reads.
func TestAWriterIsNotStarvedByTheReadersOfManyClients(t *testing.T) {
	redistest.Slow(t)
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

// The ticket of the writer joins the queue with the release of a reader. Readers of Redisson keep
// the writer out, and it gives way to a reader of its client.
func TestAWriterThatGaveWayWhenItJoinedWithAReleaseKeepsItsPlace(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		l, there, first, second, writer := w.rwClient(), w.rwClient(), w.caller(), w.caller(), w.caller()
		require.NoError(t, there.write.Lock(writer))
		reads := start(func() error { return l.read.Lock(first) })
		require.True(t, pending(reads))
		require.NoError(t, there.write.Unlock(writer))
		require.NoError(t, <-reads)
		require.Contains(t, w.PubSubChannels("*"), "rlock_grants:{orders:42}rw:"+l.ID(), "it stays subscribed")

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

// Redisson's readers ignore waiting writers. One of them always reads.
func TestAWriterThatForeignReadersStarveStarvesNoReader(t *testing.T) {
	redistest.Slow(t)
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

// A writer elsewhere is there for most of the time, but for a moment again and again. Readers of
// other clients are granted the lock in between.
func TestAReaderIsNotStarvedByWritersThatWaitForAMoment(t *testing.T) {
	redistest.Slow(t)
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
