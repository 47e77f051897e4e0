// Package kinds_test is about what only some kinds have: readers and writers, the permits of a
// semaphore, fencing tokens.
package kinds_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
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

// Redisson's writer shows that it waits only by listening.
func TestAWriterOfRedissonIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(2 * time.Second)
		f := w.NewForeigner(testbed.RWChannel, "mode", "write", testbed.ForeignOwner+":write", "1")
		var reads [6]int
		var all sync.WaitGroup
		for i := range 2 {
			l := w.NewClient().NewReadWriteLock(testbed.Key).Read()
			for j := range 3 {
				all.Go(func() {
					time.Sleep(time.Duration(7*i+3*j) * time.Millisecond)
					for ; time.Now().Before(end); reads[3*i+j]++ {
						assert.NoError(t, l.Do(w.Ctx, func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }))
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
