package rlock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// How a writer who waits for readers keeps others from beginning to read.

const (
	intentKey = "{orders:42}:rlock_writer"
	// An intent is as long as it was asked for; who sleeps until it ends wakes a bit later.
	intentTime, late = time.Second, 25 * time.Millisecond
)

// Their turns end at different times, so that one of them always reads.
func TestAWriterIsNotStarvedByTheReadersOfManyClients(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const clients, reading, between = 6, 50 * time.Millisecond, 20 * time.Millisecond
		end := time.Now().Add(10 * time.Second)
		shelves := make([]shelf, clients)
		for i := range shelves {
			shelves[i] = w.shelf()
		}
		readers := readWithoutEnd(w, shelves, 3, [2]time.Duration{7 * time.Millisecond, 13 * time.Millisecond}, reading, end)
		writes, longest := writeUntil(w, w.shelf(), between, end)
		reads := sum(readers())
		t.Logf("%d writes, the longest wait %v; %d reads", writes, longest, reads)
		assert.Less(t, longest, 5*reading)
		assert.Greater(t, writes, 50)
		assert.Greater(t, reads, 500, "the readers' turn comes as well")
	})
}

func TestWhileAWriterWaitsNobodyElsewhereBeginsToReadAndWhoReadsGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, elsewhere := w.shelf(), w.shelf(), w.shelf()
		me, writer, other := w.caller(), w.caller(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.True(t, w.try(elsewhere.read))
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		assert.True(t, w.try(reading.read), "who comes to readers joins them until their turn is over")
		reader := start(func() error { return elsewhere.read.Lock(other) })
		for range 100 { // intents end, and others follow
			time.Sleep(300 * time.Millisecond)
			require.False(t, w.try(elsewhere.read), "readers wait there")
			require.False(t, w.try(writing.read), "the writer waits there")
		}
		require.False(t, w.try(w.shelf().read), "nobody is there")
		ok, err := w.shelf().read.TryLockFor(w.caller(), 10*time.Second, 0)
		require.NoError(t, err)
		assert.False(t, ok)
		require.NoError(t, reading.read.Lock(me), "who reads may nest")
		require.NoError(t, reading.read.Unlock(me))
		assert.False(t, w.try(reading.read), "their turn is over")

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
		here, there, elsewhere, me, writer := w.shelf(), w.shelf(), w.shelf(), w.caller(), w.caller()
		require.NoError(t, here.write.Lock(me))
		waiting := start(func() error { return there.write.Lock(writer) })
		require.True(t, pending(waiting))
		time.Sleep(time.Minute)
		assert.False(t, w.Exists(intentKey), "it does not wait for readers")
		require.NoError(t, here.read.Lock(me))
		require.NoError(t, here.write.Unlock(me))
		require.True(t, pending(waiting))
		time.Sleep(time.Minute)
		assert.True(t, here.read.IsHeld(me))
		assert.False(t, w.try(elsewhere.read), "now it does")
		within(t, 0, 0, func() {
			require.NoError(t, here.read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, there.write.Unlock(writer))
	})
}

func TestWhoTriesToWriteOnceHoldsNobodyBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, me := w.shelf(), w.shelf(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.False(t, w.try(writing.write))
		_, err := writing.write.TryAcquire(w.ctx)
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.False(t, w.Exists(intentKey))
		assert.True(t, w.try(w.shelf().read))
		require.NoError(t, reading.read.Unlock(me))
	})
}

func TestAWriterWhoGivesUpHoldsReadersBackNoLongerThanItWouldHaveWaited(t *testing.T) {
	const wait = 100 * time.Millisecond
	for name, test := range map[string]struct {
		atMost time.Duration // from when it gives up
		giveUp func(write *rlock.WriteLock, ctx context.Context) error
	}{
		"its time is up": {late, func(write *rlock.WriteLock, ctx context.Context) error {
			_, err := write.Acquire(ctx, rlock.WithWait(wait))
			return err
		}},
		"its context has a deadline": {late, func(write *rlock.WriteLock, ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			return write.Lock(ctx)
		}},
		"it is cancelled": {intentTime + late, func(write *rlock.WriteLock, ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(wait, cancel)
			return write.Lock(ctx)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				reading, writing, elsewhere := w.shelf(), w.shelf(), w.shelf()
				me, reader, behind := w.caller(), w.caller(), w.caller()
				require.NoError(t, reading.read.Lock(me))
				gone := start(func() error { return test.giveUp(writing.write, w.caller()) })
				require.True(t, pending(gone))
				waiting := start(func() error { return elsewhere.read.Lock(reader) })
				next := start(func() error { return writing.read.Lock(behind) })
				require.True(t, pending(waiting))
				require.Error(t, <-gone)
				within(t, 0, test.atMost, func() {
					require.NoError(t, <-waiting)
					require.NoError(t, <-next)
				})
				assert.False(t, w.Exists(intentKey))
				require.NoError(t, reading.read.Unlock(me))
				require.NoError(t, elsewhere.read.Unlock(reader))
				require.NoError(t, writing.read.Unlock(behind))
			})
		})
	}
}

func TestAWriterWithLittleTimeDoesNotCutAnothersIntentShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, me, writer := w.shelf(), w.shelf(), w.caller(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		ok, err := w.shelf().write.TryLockFor(w.caller(), 10*time.Millisecond, 0)
		require.NoError(t, err)
		require.False(t, ok)
		time.Sleep(10 * time.Millisecond)
		assert.False(t, w.try(w.shelf().read))
		require.NoError(t, reading.read.Unlock(me))
		require.NoError(t, <-waiting)
		require.NoError(t, writing.write.Unlock(writer))
	})
}

// The acquire of a writer is sent again by nobody who knows what became of it.
func TestAWritersAcquireThatIsSentAgainChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, elsewhere := w.shelf(), w.shelf(), w.shelf()
		me, writer, outside := w.caller(), w.caller(), w.outsider()
		again := func(f network.Frame) (granted bool) {
			return rueidis.IsRedisNil(outside.Do(w.ctx, outside.B().Arbitrary(f.Args...).Build()).Error())
		}
		require.NoError(t, reading.read.Lock(me))
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		refused := writing.acquires()[0]
		before := w.Dump()
		assert.False(t, again(refused))
		assert.True(t, again(reading.acquires()[0]), "nor does that of who reads already")
		assert.Equal(t, before, w.Dump(), "while it waits")

		require.NoError(t, reading.read.Unlock(me))
		require.NoError(t, <-waiting)
		sent := writing.acquires()
		before = w.Dump()
		assert.False(t, again(refused))
		assert.True(t, again(sent[len(sent)-1]))
		assert.Equal(t, before, w.Dump(), "when it has the lock")
		assert.Len(t, w.Keys(), 1)

		require.NoError(t, writing.read.Lock(writer))
		require.NoError(t, writing.write.Unlock(writer))
		time.Sleep(10 * time.Millisecond)
		before = w.Dump()
		assert.False(t, again(refused))
		assert.False(t, again(sent[len(sent)-1]))
		assert.Equal(t, intentTime, w.ttl(intentKey), "an intent for nobody")
		within(t, intentTime, intentTime+late, func() { require.NoError(t, elsewhere.read.Lock(me)) })
		require.NoError(t, elsewhere.read.Unlock(me))
		assert.Equal(t, before, w.Dump(), "nor did the lock change")
		require.NoError(t, writing.read.Unlock(writer))
	})
}

func TestAWritersAcquireThatArrivesLateHoldsReadersBackForASecondAtMost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, elsewhere, me, other := w.shelf(), w.shelf(), w.shelf(), w.caller(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.False(t, w.try(writing.write)) // the script is known
		writing.net.Rule(scripts(1, network.Hold, network.Request, "acquired"))
		ctx, giveUp := context.WithCancel(w.caller())
		gone := start(func() error { return writing.write.Lock(ctx) })
		require.True(t, pending(gone))
		giveUp()
		require.ErrorIs(t, <-gone, context.Canceled)
		assert.True(t, w.try(elsewhere.read))
		writing.net.Heal()
		synctest.Wait()
		require.True(t, w.Exists(intentKey))
		within(t, intentTime, intentTime+late, func() { require.NoError(t, elsewhere.read.Lock(other)) })
		require.NoError(t, elsewhere.read.Unlock(other))
		require.NoError(t, reading.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAnIntentThatHasNoEndHoldsNobodyBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.NoError(t, w.Set(intentKey, "1"))
		assert.True(t, w.try(w.shelf().read))
		assert.True(t, w.try(w.shelf().write))
		assert.Empty(t, w.Keys(), "who writes removes it")
	})
}

// In a Cluster the key must have the lock's slot.
func TestTheIntentOfAWriterIsAllThatIsNotOfRedisson(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.client(withLease(time.Hour)), s.client()
		me := rlock.NewOwner()
		mine := rlock.WithOwner(s.ctx, me)
		require.NoError(t, here.NewReadWriteLock(key).ReadLock().Lock(mine))
		waiting := background(func() error { return there.NewReadWriteLock(key).WriteLock().Do(s.ctx, nothing) })
		require.Eventually(t, func() bool {
			left, err := s.do("PTTL", intentKey).AsInt64()
			return err == nil && left > 0 && left <= intentTime.Milliseconds()
		}, hang, time.Millisecond)
		hash, err := s.do("HGETALL", key).AsStrMap()
		require.NoError(t, err)
		require.Len(t, hash, 2)
		assert.Equal(t, "read", hash["mode"])
		for field, count := range hash {
			if field != "mode" {
				assert.True(t, strings.HasSuffix(field, ":"+me.String()), field)
				assert.Equal(t, "1", count)
			}
		}
		for another := s.client().NewReadWriteLock(key).ReadLock(); s.available(another); { // an intent may have ended before the next
			require.NoError(t, s.ctx.Err())
		}
		require.NoError(t, here.NewReadWriteLock(key).ReadLock().Unlock(mine))
		require.NoError(t, s.await(waiting))
		assert.Zero(t, s.number("EXISTS", intentKey))
		assert.True(t, s.available(here.NewReadWriteLock(key).ReadLock()))
	})
}

// Redisson's readers do not look at intents. One of them always reads.
func TestAWriterThatForeignReadersStarveStarvesNoReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const java, reading, least = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", 50 * time.Millisecond, time.Minute
		w.HSet(key, "mode", "read", java, "1")
		w.SetTTL(key, time.Hour)
		require.NoError(t, w.Set("{"+key+"}:"+java+":rwlock_timeout:1", "1"))
		w.SetTTL("{"+key+"}:"+java+":rwlock_timeout:1", time.Hour)

		writing, writer := w.shelf(), w.caller()
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		var readers sync.WaitGroup
		read := func(l shelf) (longest *time.Duration, reads *int) {
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
		longestThere, readsThere := read(w.shelf())
		longestBeside, readsBeside := read(writing)
		readers.Wait()
		t.Logf("elsewhere %d reads, the longest wait %v; in the writer's client %d, %v", *readsThere, *longestThere, *readsBeside, *longestBeside)
		assert.LessOrEqual(t, *longestThere, 2*time.Second+late, "the writer holds them back for so long")
		assert.Greater(t, *longestThere, time.Second, "but it does")
		assert.Greater(t, *readsThere, int(least/reading)/4)
		assert.LessOrEqual(t, *longestBeside, 3*time.Second+late)
		assert.GreaterOrEqual(t, *readsBeside, int(least/(3*time.Second)))

		require.True(t, pending(waiting))
		w.Del(key)
		within(t, 0, 3*time.Second, func() { require.NoError(t, <-waiting) })
		require.NoError(t, writing.write.Unlock(writer))
		w.Del("{" + key + "}:" + java + ":rwlock_timeout:1")
		assert.Empty(t, w.Keys())
	})
}
