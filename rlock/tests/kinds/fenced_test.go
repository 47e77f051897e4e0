package kinds_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testTokenIncrease; the next test has its nested locks.
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

func TestANestedLockHasTheTokenOfTheOuterOne(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock, ctx := s.NewFencedLock(), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		require.NoError(t, lock.Lock(ctx))
		first, err := lock.Token(ctx)
		require.NoError(t, err)
		require.NoError(t, lock.LockFor(ctx, time.Hour))
		hold, err := lock.Acquire(ctx)
		require.NoError(t, err)
		assert.Equal(t, first, testbed.TokenOf(t, hold))
		require.NoError(t, lock.Do(ctx, func(ctx context.Context) error {
			token, err := lock.Token(ctx)
			assert.Equal(t, first, token)
			return err
		}))
		require.NoError(t, hold.Release(ctx))
		for range 2 {
			token, err := lock.Token(ctx)
			require.NoError(t, err)
			assert.Equal(t, first, token)
			require.NoError(t, lock.Unlock(ctx))
		}
		assert.Equal(t, first+1, testbed.OneSection(ctx, t, lock))
	})
}

func TestTokensGrowOverAllGrantsAndHandOffs(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		const clients, goroutines, rounds = 2, 50, 10
		var last atomic.Uint64
		var all sync.WaitGroup
		for range clients {
			client := s.NewClient()
			for range goroutines {
				all.Go(func() {
					lock := client.NewFencedLock(testbed.Key)
					for range rounds {
						if !assert.NoError(t, lock.Lock(s.Ctx)) {
							return
						}
						token, err := lock.Token(s.Ctx)
						assert.NoError(t, err)
						if before := last.Swap(token); before >= token {
							assert.Fail(t, "tokens do not grow", "%d after %d", token, before)
						}
						assert.NoError(t, lock.Unlock(s.Ctx))
					}
				})
			}
		}
		all.Wait()
		assert.GreaterOrEqual(t, uint64(s.Number("GET", testbed.TokenKey)), last.Load())
		assert.Greater(t, testbed.OneSection(s.Ctx, t, s.NewFencedLock()), last.Load())
	})
}

func TestOnlyTheHolderGetsAToken(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewFencedLock(), s.NewFencedLock()
		refused := func(lock *rlock.Lock, err error) {
			t.Helper()
			token, got := lock.Token(s.Ctx)
			assert.ErrorIs(t, got, err)
			assert.Zero(t, token)
		}
		refused(here, rlock.ErrNotHeld)
		hold, err := here.Acquire(s.Ctx)
		require.NoError(t, err)
		refused(here, rlock.ErrNotHeld) // the hold belongs to the handle
		require.NoError(t, hold.Release(s.Ctx))

		require.NoError(t, here.Lock(s.Ctx))
		refused(there, rlock.ErrNotHeld)
		testbed.Elsewhere(func() { refused(here, rlock.ErrNotHeld) })
		require.NoError(t, here.Unlock(s.Ctx))
		refused(here, rlock.ErrNotHeld)
		refused(s.NewClient().NewFencedLock(""), rlock.ErrInvalidName)

	})
}

func TestAHoldWithoutATokenReportsThat(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock := w.NewProcess().NewLock(testbed.Key)
		hold, err := lock.Acquire(w.Ctx)
		require.NoError(t, err)
		token, err := hold.Token()
		if strings.HasPrefix(w.Kind.Name, "fenced") {
			require.NoError(t, err)
			assert.Positive(t, token)
		} else {
			require.ErrorIs(t, err, rlock.ErrNoToken)
			assert.Zero(t, token)
		}
		require.NoError(t, hold.Release(w.Ctx))
		after, errAfter := hold.Token()
		assert.Equal(t, token, after, "the token stays the same after the hold")
		assert.Equal(t, err, errAfter)
	})
}

func TestAHolderThatLosesTheLockKeepsItsTokenForTheResourceToRefuse(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewFencedLock(), s.NewFencedLock()
		hold, err := here.Acquire(s.Ctx)
		require.NoError(t, err)
		_, err = here.ForceUnlock(s.Ctx)
		require.NoError(t, err)
		require.Error(t, context.Cause(hold.Context()))
		token := testbed.TokenOf(t, hold)
		assert.Greater(t, testbed.OneSection(s.Ctx, t, there), token)
		assert.Equal(t, token, testbed.TokenOf(t, hold))
		require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
		assert.Equal(t, token, testbed.TokenOf(t, hold))

		require.NoError(t, here.Lock(s.Ctx))
		_, err = here.ForceUnlock(s.Ctx)
		require.NoError(t, err)
		_, err = here.Token(s.Ctx)
		assert.ErrorIs(t, err, rlock.ErrLost)
		require.ErrorIs(t, here.Unlock(s.Ctx), rlock.ErrLost)
		_, err = here.Token(s.Ctx)
		assert.ErrorIs(t, err, rlock.ErrNotHeld)
	})
}

func TestAFencedLockAndALockOfOneNameKeepEachOtherOut(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		plain, fenced := client.NewLock(testbed.Key), client.NewFencedLock(testbed.Key)
		for _, locks := range [][2]testbed.Locker{{plain, fenced}, {fenced, plain}} {
			first, second := locks[0], locks[1]
			require.NoError(t, first.Lock(s.Ctx))
			taken, err := second.TryLock(s.Ctx)
			require.NoError(t, err)
			assert.False(t, taken, "a lock of another kind belongs to another owner")
			assert.False(t, second.IsHeld(s.Ctx))
			waiter := testbed.Start(func() error { return second.Lock(s.Ctx) })
			s.AwaitWaiters(1, testbed.Key)
			require.NoError(t, first.Unlock(s.Ctx))
			require.NoError(t, s.Await(waiter))
			forced, err := second.ForceUnlock(s.Ctx)
			require.NoError(t, err)
			assert.True(t, forced)
		}
	})
}

func TestTokensAreGivenAfterTheScriptsWereFlushed(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewFencedLock()
		first := testbed.OneSection(s.Ctx, t, lock)
		s.Forget()
		assert.Greater(t, testbed.OneSection(s.Ctx, t, lock), first)
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

func TestAUserWithoutTheRightsToTheCounterGetsAnErrorAndHoldsNothing(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	needed := s.Rights("FencedLock")
	rules := append(s.Rights(s.AclLines()...), needed...)
	try := func(rules []string) error {
		client, err := rlock.New(s.Limited(rules...))
		require.NoError(t, err)
		defer client.Close()
		_, err = client.NewFencedLock(testbed.Key).Acquire(s.Ctx, rlock.WithWait(0))
		return err
	}
	require.NoError(t, try(rules))
	for i, rule := range needed {
		n := len(rules) - len(needed) + i
		err := try(slices.Delete(slices.Clone(rules), n, n+1))
		assert.ErrorIs(t, err, rlock.ErrNoPermission, rule)
		assert.Zero(t, s.Number("EXISTS", testbed.Key), rule)
	}
}
