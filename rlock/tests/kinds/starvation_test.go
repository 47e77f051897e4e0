package kinds_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const late = 25 * time.Millisecond // a sleeping waiter's delay

// Readers and writers take turns: later readers do not pass a waiting writer.

// Redisson's readers ignore waiting writers. One of them always reads.
func TestAWriterThatForeignReadersStarveStarvesNoReader(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const java, reading, least = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", 50 * time.Millisecond, 12 * time.Second
		w.HSet(testbed.Key, "mode", "read", java, "1")
		w.SetTTL(testbed.Key, time.Hour)
		require.NoError(t, w.Set("{"+testbed.Key+"}:"+java+":rwlock_timeout:1", "1"))
		w.SetTTL("{"+testbed.Key+"}:"+java+":rwlock_timeout:1", time.Hour)

		writing, writer := w.NewRWClient(), w.Caller()
		waiting := testbed.Waits(t, func() error { return writing.Write.Lock(writer) })
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

// Redisson's writer shows that it waits only by listening.
func TestAWriterOfRedissonIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(2 * time.Second)
		f := w.NewForeigner(testbed.RWChannel, "mode", "write", testbed.ForeignOwner+":write", "1")
		var reads [6]int
		var all sync.WaitGroup
		for i, l := range []testbed.RWClient{w.NewRWClient(), w.NewRWClient()} {
			for j := range 3 {
				all.Go(func() {
					time.Sleep(time.Duration(7*i+3*j) * time.Millisecond)
					for ; time.Now().Before(end); reads[3*i+j]++ {
						assert.NoError(t, l.Read.Do(w.Ctx, func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }))
					}
				})
			}
		}
		f.Contend(end, testbed.Punctual)
		all.Wait()
		t.Logf("%d writes, reads %v", f.Sections, reads)
		assert.Greater(t, f.Sections, 20)
		assert.Greater(t, slices.Min(reads[:]), 20)
	})
}
