// Package kinds_test is about what only some kinds have: readers and writers, the permits of a
// semaphore, fencing tokens.
package kinds_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// Redisson: testTokenIncrease; stories/fenced.txt has its nested locks.
func TestATokenIsCountedForEachGrantInRedissonsKey(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewFencedLock(), s.NewFencedLock()
		for token := uint64(1); token < 10; token += 2 {
			assert.Equal(t, token, testbed.OneSection(s.Ctx, t, here))
			assert.Equal(t, token+1, testbed.OneSection(s.Ctx, t, there))
		}
		assert.EqualValues(t, 10, s.Number("GET", testbed.TokenKey))
		assert.EqualValues(t, -1, s.Number("PTTL", testbed.TokenKey), "the counter must outlive the data that the tokens protect")
	})
}

// broken are keys that cannot be counters, with the error of the lock.
var broken = map[string]struct {
	command []string
	err     error
	says    string
}{
	"a list":                     {[]string{"RPUSH", "x"}, rlock.ErrWrongType, testbed.TokenKey},
	"a word":                     {[]string{"SET", "x"}, rlock.ErrWrongType, testbed.TokenKey},
	"a negative number":          {[]string{"SET", "-5"}, rlock.ErrWrongType, testbed.TokenKey},
	"a counter that is worn out": {[]string{"SET", strconv.FormatInt(math.MaxInt64, 10)}, nil, "overflow (token counter " + testbed.TokenKey},
}

func TestAnInvalidTokenCounterIsAnErrorAtOnceAndTheLockStaysFree(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		testbed.NeedsWideNumbers(t, s.Kind)
		lock := s.NewFencedLock()
		for what, b := range broken {
			s.Number("DEL", testbed.TokenKey)
			require.NoError(t, s.Do(b.command[0], testbed.TokenKey, b.command[1:]...).Error())
			var err error
			for range 7 { // a counter that is refused is not counted up
				err = lock.Lock(s.Ctx)
				require.Error(t, err, what)
			}
			if b.err != nil {
				assert.ErrorIs(t, err, b.err, what)
			}
			assert.ErrorContains(t, err, b.says, what)
			assert.Zero(t, s.Number("EXISTS", testbed.Key), what)
			assert.True(t, s.IsFree(s.NewLock()), what)
		}
		s.Number("DEL", testbed.TokenKey)
		require.NoError(t, lock.Lock(s.Ctx))
		require.NoError(t, s.Do("SET", testbed.TokenKey, "x").Error())
		require.NoError(t, lock.Lock(s.Ctx), "a holder needs the counter no longer")
		require.NoError(t, lock.Unlock(s.Ctx))
		require.NoError(t, lock.Unlock(s.Ctx))
		s.Number("DEL", testbed.TokenKey)
	})
}

func TestTokensAreExactBeyondWhatLuaCanCount(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		testbed.NeedsWideNumbers(t, s.Kind)
		lock := s.NewFencedLock()
		for _, last := range []uint64{1 << 53, math.MaxInt64 - 1} {
			require.NoError(t, s.Do("SET", testbed.TokenKey, fmt.Sprint(last)).Error())
			assert.Equal(t, last+1, testbed.OneSection(s.Ctx, t, lock))
		}
		s.Number("DEL", testbed.TokenKey)
	})
}

// What a semaphore of several permits adds to one of a single permit, which the tests over all
// kinds cover.

// atOnce is one attempt.
func atOnce(k int) []rlock.AcquireOption {
	return []rlock.AcquireOption{rlock.WithPermits(k), rlock.WithWait(0)}
}

func TestASemaphoreHasAsManyHoldersAsPermits(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewSemaphore(testbed.Key, 5), s.NewClient().NewSemaphore(testbed.Key, 5)
		refused := func(k int) {
			t.Helper()
			for _, lock := range []*rlock.Lock{here, there} {
				require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(s.Ctx, atOnce(k)...)), rlock.ErrNotAcquired)
			}
		}
		shown := func(want bool) {
			t.Helper()
			locked, err := there.IsLocked(s.Ctx)
			require.NoError(t, err)
			assert.Equal(t, want, locked)
			ttl, err := there.TTL(s.Ctx)
			require.NoError(t, err)
			assert.Equal(t, want, ttl > 0)
		}
		three := testbed.Take(t, s.Ctx, here, atOnce(3)...)
		refused(3)
		shown(false)
		held := testbed.Permits(t, s.Ctx, there, 2) // the attempts before have taken none
		refused(1)
		shown(true)
		require.NoError(t, three.Release(s.Ctx))
		shown(false)
		held = append(held, testbed.Permits(t, s.Ctx, here, 3)...)
		refused(1)
		testbed.Release(t, s.Ctx, held...)
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

// One that takes many is the first in the queue, and those that come after it wait although there
// is a permit for them.
func TestACallThatTakesManyPermitsIsNotStarved(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		const n = 3
		c := s.NewClient()
		lock, wide, narrow := c.NewSemaphore(testbed.Key, n), s.NewClient().NewSemaphore(testbed.Key, n), s.NewClient().NewSemaphore(testbed.Key, n)
		held := testbed.Permits(t, s.Ctx, lock, 2)
		var mu sync.Mutex
		var order []string
		takes := func(l *rlock.Lock, name string, k int) <-chan error {
			return testbed.Start(func() error {
				h, err := l.Acquire(s.Ctx, rlock.WithPermits(k))
				if err != nil {
					return err
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				return h.Release(s.Ctx)
			})
		}
		first := takes(wide, "three", n)
		s.AwaitWaiters(1, testbed.Key)
		_, err := narrow.Acquire(s.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired, "an attempt does not pass it")
		second := takes(narrow, "one", 1)
		s.AwaitWaiters(2, testbed.Key)
		third := takes(wide, "two", 2)
		s.AwaitWaiters(3, testbed.Key)

		shown := testbed.Inspected(t, s.Ctx, c)
		assert.Equal(t, []int{3, 1, 2}, permitsOf(shown.Queue))
		testbed.Release(t, s.Ctx, held...)
		for _, call := range []<-chan error{first, second, third} {
			require.NoError(t, redistest.Await(t, call))
		}
		assert.Equal(t, "three", order[0])
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

func permitsOf(queue []inspect.Waiter) (ks []int) {
	for _, w := range queue {
		ks = append(ks, w.Permits)
	}
	return ks
}

// What a ReadWriteLock adds to other locks. The tests over all kinds cover each of its two
// locks.

func TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		a, b, c := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		available := func(read, write bool) {
			t.Helper()
			for _, lock := range []*rlock.ReadWriteLock{here, there} {
				assert.Equal(t, read, s.IsFree(lock.Read()))
				assert.Equal(t, write, s.IsFree(lock.Write()))
			}
		}
		require.NoError(t, here.Read().Lock(a))
		require.NoError(t, here.Read().Lock(b))
		require.NoError(t, there.Read().Lock(c))
		available(true, false)
		require.NoError(t, here.Read().Unlock(a))
		require.NoError(t, there.Read().Unlock(c))
		available(true, false)
		require.NoError(t, here.Read().Unlock(b))
		available(true, true)
		require.NoError(t, here.Write().Lock(a))
		available(false, false)
		require.NoError(t, here.Write().Unlock(a))
		available(true, true)
	})
}

// awaitRW returns when the hash shows the mode and exactly these fields, "<id>" for a reader of the
// client and "<id>:write" for a writer. Each reader has a key with a lease, and so has the hash.
func awaitRW(s *testbed.Site, client *rlock.Client, mode string, want map[string]string) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		hash, err := s.Do("HGETALL", testbed.Key).AsStrMap()
		if err != nil || len(hash) != len(want)+1 || hash["mode"] != mode {
			return false
		}
		delete(hash, "mode")
		for field, count := range hash {
			uuid, id, _ := strings.Cut(field, ":")
			lives, err := s.Do("PTTL", "{"+testbed.Key+"}:"+field+":rwlock_timeout:1").AsInt64()
			reads := !strings.HasSuffix(field, ":write")
			if want[id] != count || !strings.HasPrefix(uuid, inspect.Of(client).ID()) || err != nil || reads != (lives > 0) {
				return false
			}
		}
		return true
	}, testbed.Hang, time.Millisecond, "%s %v", mode, want)
	require.Positive(s.T, s.Number("PTTL", testbed.Key))
}

// The keys, fields and messages of a ReadWriteLock that Redisson sees.

func TestTheHashShowsModeReadersAndWriterAsRedissonDoes(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient(testbed.WithLease(time.Hour))
		l := client.NewReadWriteLock(testbed.Key)
		me, other := rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(s.Ctx, me), rlock.WithOwner(s.Ctx, other)
		id, write := fmt.Sprint(me), fmt.Sprint(me)+":write"

		require.NoError(t, l.Read().Lock(mine))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Lock(theirs))
		require.NoError(t, l.Read().Lock(theirs))
		heard := s.Listen(s.Family(), testbed.RWChannel) // for the client it is a guest that waits: readers would not join
		awaitRW(s, client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Read().Unlock(theirs))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		assert.Empty(t, heard.Heard())
		require.NoError(t, l.Read().Unlock(theirs))
		assert.Equal(t, []string{"00"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))

		// An acquire may begin a window for the guest. That is published as well.
		acquire := func() {
			require.NoError(t, l.Write().Lock(mine))
			heard.Heard()
		}
		acquire()
		awaitRW(s, client, "write", map[string]string{write: "1"})
		require.NoError(t, l.Write().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "2"})
		require.NoError(t, l.Read().Lock(mine))
		require.NoError(t, l.Read().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "2", id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		awaitRW(s, client, "write", map[string]string{write: "1", id: "1"})
		assert.Empty(t, heard.Heard())
		require.NoError(t, l.Write().Unlock(mine))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		assert.Equal(t, []string{"01"}, heard.Heard(), "readers may enter")
		require.NoError(t, l.Read().Unlock(mine))
		assert.Equal(t, []string{"00"}, heard.Heard())

		acquire()
		require.NoError(t, l.Write().Unlock(mine))
		assert.Equal(t, []string{"01"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

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
