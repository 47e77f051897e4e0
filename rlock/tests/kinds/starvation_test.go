package kinds_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readWithoutEnd starts each readers in each of the rwClients, which read until the end, one
// section after the other. The rwClients begin at intervals of apart[0], the readers of one
// at intervals of apart[1]. The returned function waits for them, and returns how often each
// has read.
func readWithoutEnd(w *testbed.World, rwClients []testbed.RWClient, each int, apart [2]time.Duration, section time.Duration, end time.Time) (reads func() []int) {
	counts := make([]int, each*len(rwClients))
	var all sync.WaitGroup
	for i, l := range rwClients {
		for j := range each {
			reader := w.Caller()
			all.Go(func() {
				time.Sleep(time.Duration(i)*apart[0] + time.Duration(j)*apart[1])
				for ; time.Now().Before(end); counts[each*i+j]++ {
					assert.NoError(w.T, l.Read.Lock(reader))
					time.Sleep(section)
					assert.NoError(w.T, l.Read.Unlock(reader))
				}
			})
		}
	}
	return func() []int { all.Wait(); return counts }
}

// writeUntil writes again and again, and returns how often, and its longest wait.
func writeUntil(w *testbed.World, l testbed.RWClient, between time.Duration, end time.Time) (writes int, longest time.Duration) {
	for writer := w.Caller(); time.Now().Before(end); writes++ {
		began := time.Now()
		assert.NoError(w.T, l.Write.Lock(writer))
		longest = max(longest, time.Since(began))
		time.Sleep(time.Millisecond)
		assert.NoError(w.T, l.Write.Unlock(writer))
		time.Sleep(between)
	}
	return writes, longest
}

func TestAWaitingWriterHoldsBackLaterReaders(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, reader, writer, late := w.NewRWClient(), w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, l.Read.Lock(reader))
		ctx, giveUp := context.WithCancel(writer)
		waiting := testbed.Start(func() error { return l.Write.Lock(ctx) })
		require.True(t, testbed.Pending(waiting))
		joining := testbed.Start(func() error { return l.Read.Lock(late) })
		require.True(t, testbed.Pending(joining))
		assert.False(t, w.IsFree(l.Read))
		require.NoError(t, l.Read.Lock(reader), "an active reader may nest")
		require.NoError(t, l.Read.Unlock(reader))

		giveUp()
		require.ErrorIs(t, <-waiting, context.Canceled)
		testbed.Within(t, 0, 0, func() { require.NoError(t, <-joining) })
		assert.True(t, w.IsFree(l.Read))

		waiting = testbed.Start(func() error { return l.Write.Lock(writer) })
		require.True(t, testbed.Pending(waiting))
		require.NoError(t, l.Read.Unlock(reader))
		assert.True(t, testbed.Pending(waiting))
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, l.Read.Unlock(late))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.Write.Unlock(writer))
	})
}

// Readers come and go in every process, so that one always reads.
func TestAWriterElsewhereIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, writers := w.NewRWClient(), w.NewRWClient(), w.NewRWClient()
		end := time.Now().Add(2 * time.Second)
		reading := readWithoutEnd(w, []testbed.RWClient{here, there}, 8, [2]time.Duration{8 * time.Millisecond, time.Millisecond}, 5*time.Millisecond, end)
		writes, longest := writeUntil(w, writers, 10*time.Millisecond, end)
		reads := testbed.Sum(reading())
		commands := testbed.Evalshas(here.Net.Sent("")) + testbed.Evalshas(there.Net.Sent("")) + testbed.Evalshas(writers.Net.Sent(""))
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const clients, reading, between = 6, 50 * time.Millisecond, 20 * time.Millisecond
		end := time.Now().Add(3 * time.Second)
		rwClients := make([]testbed.RWClient, clients)
		for i := range rwClients {
			rwClients[i] = w.NewRWClient()
		}
		readers := readWithoutEnd(w, rwClients, 3, [2]time.Duration{7 * time.Millisecond, 13 * time.Millisecond}, reading, end)
		writes, longest := writeUntil(w, w.NewRWClient(), between, end)
		reads := testbed.Sum(readers())
		t.Logf("%d writes, the longest wait %v; %d reads", writes, longest, reads)
		assert.Less(t, longest, 5*reading)
		assert.Greater(t, writes, 15)
		assert.Greater(t, reads, 150, "readers get their turns, too")
	})
}

func TestAWaitingWriterBlocksReadersOfOtherClientsAndNoActiveReader(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		reading, writing, elsewhere := w.NewRWClient(), w.NewRWClient(), w.NewRWClient()
		me, writer, other := w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, reading.Read.Lock(me))
		assert.True(t, w.IsFree(elsewhere.Read))
		waiting := testbed.Start(func() error { return writing.Write.Lock(writer) })
		require.True(t, testbed.Pending(waiting))
		assert.True(t, w.IsFree(reading.Read), "a reader of the reading client joins until their turn ends")
		reader := testbed.Start(func() error { return elsewhere.Read.Lock(other) })
		for range 100 { // the queue's marks expire, and others follow
			time.Sleep(300 * time.Millisecond)
			require.False(t, w.IsFree(elsewhere.Read), "readers of a waiting client wait")
			require.False(t, w.IsFree(writing.Read), "readers of the writer's client wait")
		}
		require.False(t, w.IsFree(w.NewRWClient().Read), "readers of a new client wait")
		ok, err := w.NewRWClient().Read.TryLockFor(w.Caller(), 10*time.Second, 0)
		require.NoError(t, err)
		assert.False(t, ok)
		require.NoError(t, reading.Read.Lock(me), "an active reader may nest")
		require.NoError(t, reading.Read.Unlock(me))
		assert.False(t, w.IsFree(reading.Read), "the turn has ended")

		require.True(t, testbed.Pending(waiting))
		require.True(t, testbed.Pending(reader))
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, reading.Read.Unlock(me))
			require.NoError(t, <-waiting)
			require.NoError(t, writing.Write.Unlock(writer))
			require.NoError(t, <-reader)
		})
		require.NoError(t, elsewhere.Read.Unlock(other))
		assert.Empty(t, w.Keys())
	})
}

// The ticket of the writer joins the queue with the release of a reader. Readers of Redisson keep
// the writer out, and it gives way to a reader of its client.
func TestAWriterThatGaveWayWhenItJoinedWithAReleaseKeepsItsPlace(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there, first, second, writer := w.NewRWClient(), w.NewRWClient(), w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, there.Write.Lock(writer))
		reads := testbed.Start(func() error { return l.Read.Lock(first) })
		require.True(t, testbed.Pending(reads))
		require.NoError(t, there.Write.Unlock(writer))
		require.NoError(t, <-reads)
		require.Contains(t, w.PubSubChannels("*"), "rlock_grants:{orders:42}rw:"+l.ID(), "it stays subscribed")

		const timeout = "{orders:42}:" + testbed.ForeignOwner + ":rwlock_timeout:1"
		w.HSet(testbed.Key, testbed.ForeignOwner, "1")
		require.NoError(t, w.Set(timeout, "1"))
		w.SetTTL(timeout, time.Hour)
		w.SetTTL(testbed.Key, time.Hour)
		held := testbed.Start(func() error {
			_, err := there.Write.TryLockFor(w.Caller(), 2100*time.Millisecond, 0)
			return err
		})
		time.Sleep(time.Second)
		writes := testbed.Start(func() error { return l.Write.Lock(writer) })
		require.True(t, testbed.Pending(writes))
		alsoReads := testbed.Start(func() error { return l.Read.Lock(second) })
		require.True(t, testbed.Pending(alsoReads))
		require.NoError(t, <-held)
		require.LessOrEqual(t, heldBack(w), time.Duration(0), "readers may begin")
		require.NoError(t, l.Read.Unlock(first))
		require.NoError(t, <-alsoReads)

		time.Sleep(90 * time.Second)
		assert.True(t, w.Exists("rlock_queue:{orders:42}rw"), "the writer waits there")
		w.HDel(testbed.Key, testbed.ForeignOwner)
		testbed.Within(t, 0, 200*time.Millisecond, func() { // a turn of guests
			require.NoError(t, l.Read.Unlock(second))
			require.NoError(t, <-writes)
		})
		require.NoError(t, l.Write.Unlock(writer))
	})
}

// Redisson's readers ignore waiting writers. One of them always reads.
func TestAWriterThatForeignReadersStarveStarvesNoReader(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const java, reading, least = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", 50 * time.Millisecond, 30 * time.Second
		w.HSet(testbed.Key, "mode", "read", java, "1")
		w.SetTTL(testbed.Key, time.Hour)
		require.NoError(t, w.Set("{"+testbed.Key+"}:"+java+":rwlock_timeout:1", "1"))
		w.SetTTL("{"+testbed.Key+"}:"+java+":rwlock_timeout:1", time.Hour)

		writing, writer := w.NewRWClient(), w.Caller()
		waiting := testbed.Start(func() error { return writing.Write.Lock(writer) })
		require.True(t, testbed.Pending(waiting))
		var readers sync.WaitGroup
		read := func(l testbed.RWClient) (longest *time.Duration, reads *int) {
			longest, reads = new(time.Duration), new(int)
			me, end := w.Caller(), time.Now().Add(least)
			readers.Go(func() {
				for ; time.Now().Before(end); *reads++ {
					asked := time.Now()
					ok, err := l.Read.TryLockFor(me, 10*time.Second, 0)
					*longest = max(*longest, time.Since(asked))
					if !assert.NoError(t, err) || !ok {
						continue
					}
					time.Sleep(reading)
					assert.NoError(t, l.Read.Unlock(me))
				}
			})
			return longest, reads
		}
		longestThere, readsThere := read(w.NewRWClient())
		longestBeside, readsBeside := read(writing)
		readers.Wait()
		t.Logf("elsewhere %d reads, the longest wait %v; in the writer's client %d, %v", *readsThere, *longestThere, *readsBeside, *longestBeside)
		assert.LessOrEqual(t, *longestThere, 2*time.Second+late, "the writer holds readers back for two seconds")
		assert.Greater(t, *longestThere, time.Second, "the writer holds readers back")
		assert.Greater(t, *readsThere, int(least/reading)/4)
		assert.LessOrEqual(t, *longestBeside, 3*time.Second+late)
		assert.GreaterOrEqual(t, *readsBeside, int(least/(3*time.Second)))

		require.True(t, testbed.Pending(waiting))
		w.Del(testbed.Key)
		testbed.Within(t, 0, 3*time.Second, func() { require.NoError(t, <-waiting) })
		require.NoError(t, writing.Write.Unlock(writer))
		w.Del("{" + testbed.Key + "}:" + java + ":rwlock_timeout:1")
		time.Sleep(time.Minute) // until clients of Redisson are forgotten
		assert.Empty(t, w.Keys())
	})
}

// A writer elsewhere is there for most of the time, but for a moment again and again. Readers of
// other clients are granted the lock in between.
func TestAReaderIsNotStarvedByWritersThatWaitForAMoment(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, writers, me := w.NewRWClient(), w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, here.Read.Lock(me), "it reads all the time")
		end := time.Now().Add(30 * time.Second)
		read := func(l testbed.RWClient, longest *time.Duration) func() {
			return func() {
				for time.Now().Before(end) {
					began := time.Now()
					assert.NoError(t, l.Read.Do(w.Caller(), func(context.Context) error {
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
				got, err := writers.Write.TryLockFor(w.Caller(), 100*time.Millisecond, 0)
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
		require.NoError(t, here.Read.Unlock(me))
	})
}

// heldBack returns for how long foreign readers have ours held back yet, as the scripts read it.
func heldBack(w *testbed.World) time.Duration {
	since, err := strconv.ParseInt(w.HGet("rlock_foreign:{orders:42}rw", "w"), 10, 64)
	if err != nil {
		return 2 * time.Second // it has not begun
	}
	return time.UnixMilli(since).Add(2 * time.Second).Sub(time.Now().Truncate(time.Millisecond))
}

// Redisson's writer shows that it waits only by listening.
func TestAWriterOfRedissonIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(4 * time.Second)
		f := w.NewForeigner(testbed.RWChannel, "mode", "write", testbed.ForeignOwner+":write", "1")
		rwClients := []testbed.RWClient{w.NewRWClient(), w.NewRWClient()}
		reading := readWithoutEnd(w, rwClients, 3, [2]time.Duration{7 * time.Millisecond, 3 * time.Millisecond}, 5*time.Millisecond, end)
		f.Contend(end, testbed.Punctual)
		reads := reading()
		t.Logf("%d writes, reads %v", f.Sections, reads)
		assert.Greater(t, f.Sections, 40)
		for _, n := range reads {
			assert.Greater(t, n, 40)
		}
	})
}
