package rlock_test

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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tokenKey is the key of the fencing tokens of the lock named key.
const tokenKey = "redisson_lock_token:{orders:42}"

// fenced returns the fenced lock of that name, of a client of its own.
func (s *site) fenced(changes ...func(*rlock.Config)) *rlock.Lock {
	s.t.Helper()
	return s.client(changes...).NewFencedLock(key)
}

// oneSection takes the lock for a moment and returns the token of its hold.
func oneSection(ctx context.Context, t *testing.T, lock *rlock.Lock) uint64 {
	t.Helper()
	hold, err := lock.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Release(ctx))
	return tokenOf(t, hold)
}

// tokenOf returns the token of a hold that must have one.
func tokenOf(t *testing.T, hold *rlock.Hold) uint64 {
	t.Helper()
	token, err := hold.Token()
	require.NoError(t, err)
	assert.NotZero(t, token)
	return token
}

// Redisson: testTokenIncrease; the next test has its nested locks.
func TestATokenIsCountedForEachGrantInRedissonsKey(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.fenced(), s.fenced()
		for token := uint64(1); token < 10; token += 2 {
			assert.Equal(t, token, oneSection(s.ctx, t, here))
			assert.Equal(t, token+1, oneSection(s.ctx, t, there))
		}
		assert.EqualValues(t, 10, s.number("GET", tokenKey))
		assert.EqualValues(t, -1, s.number("PTTL", tokenKey), "the counter must outlive the data that the tokens protect")
	})
}

func TestANestedLockHasTheTokenOfTheOuterOne(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock, ctx := s.fenced(), rlock.WithOwner(s.ctx, rlock.NewOwner())
		require.NoError(t, lock.Lock(ctx))
		first, err := lock.Token(ctx)
		require.NoError(t, err)
		require.NoError(t, lock.LockFor(ctx, time.Hour))
		hold, err := lock.Acquire(ctx)
		require.NoError(t, err)
		assert.Equal(t, first, tokenOf(t, hold))
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
		assert.Equal(t, first+1, oneSection(ctx, t, lock))
	})
}

func TestTokensGrowOverAllGrantsAndHandOffs(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const clients, goroutines, rounds = 2, 50, 10
		var last atomic.Uint64
		var all sync.WaitGroup
		for range clients {
			client := s.client()
			for range goroutines {
				all.Go(func() {
					lock := client.NewFencedLock(key)
					for range rounds {
						if !assert.NoError(t, lock.Lock(s.ctx)) {
							return
						}
						token, err := lock.Token(s.ctx)
						assert.NoError(t, err)
						if before := last.Swap(token); before >= token {
							assert.Fail(t, "tokens do not grow", "%d after %d", token, before)
						}
						assert.NoError(t, lock.Unlock(s.ctx))
					}
				})
			}
		}
		all.Wait()
		assert.GreaterOrEqual(t, uint64(s.number("GET", tokenKey)), last.Load())
		assert.Greater(t, oneSection(s.ctx, t, s.fenced()), last.Load())
	})
}

func TestOnlyTheHolderGetsAToken(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.fenced(), s.fenced()
		refused := func(lock *rlock.Lock, err error) {
			t.Helper()
			token, got := lock.Token(s.ctx)
			assert.ErrorIs(t, got, err)
			assert.Zero(t, token)
		}
		refused(here, rlock.ErrNotHeld)
		hold, err := here.Acquire(s.ctx)
		require.NoError(t, err)
		refused(here, rlock.ErrNotHeld) // the hold belongs to the handle
		require.NoError(t, hold.Release(s.ctx))

		require.NoError(t, here.Lock(s.ctx))
		refused(there, rlock.ErrNotHeld)
		elsewhere(func() { refused(here, rlock.ErrNotHeld) })
		require.NoError(t, here.Unlock(s.ctx))
		refused(here, rlock.ErrNotHeld)
		refused(s.client().NewFencedLock(""), rlock.ErrInvalidName)

	})
}

func TestAHoldWithoutATokenReportsThat(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		lock := w.process().lock(key)
		hold, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		token, err := hold.Token()
		if strings.HasPrefix(w.kind.name, "fenced") {
			require.NoError(t, err)
			assert.Positive(t, token)
		} else {
			require.ErrorIs(t, err, rlock.ErrNoToken)
			assert.Zero(t, token)
		}
		require.NoError(t, hold.Release(w.ctx))
		after, errAfter := hold.Token()
		assert.Equal(t, token, after, "the token stays the same after the hold")
		assert.Equal(t, err, errAfter)
	})
}

func TestAHolderThatLosesTheLockKeepsItsTokenForTheResourceToRefuse(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there := s.fenced(), s.fenced()
		hold, err := here.Acquire(s.ctx)
		require.NoError(t, err)
		_, err = here.ForceUnlock(s.ctx)
		require.NoError(t, err)
		require.Error(t, context.Cause(hold.Context()))
		token := tokenOf(t, hold)
		assert.Greater(t, oneSection(s.ctx, t, there), token)
		assert.Equal(t, token, tokenOf(t, hold))
		require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
		assert.Equal(t, token, tokenOf(t, hold))

		require.NoError(t, here.Lock(s.ctx))
		_, err = here.ForceUnlock(s.ctx)
		require.NoError(t, err)
		_, err = here.Token(s.ctx)
		assert.ErrorIs(t, err, rlock.ErrLost)
		require.ErrorIs(t, here.Unlock(s.ctx), rlock.ErrLost)
		_, err = here.Token(s.ctx)
		assert.ErrorIs(t, err, rlock.ErrNotHeld)
	})
}

func TestAFencedLockAndALockOfOneNameKeepEachOtherOut(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client()
		plain, fenced := client.NewLock(key), client.NewFencedLock(key)
		for _, locks := range [][2]locker{{plain, fenced}, {fenced, plain}} {
			first, second := locks[0], locks[1]
			require.NoError(t, first.Lock(s.ctx))
			taken, err := second.TryLock(s.ctx)
			require.NoError(t, err)
			assert.False(t, taken, "a lock of another kind belongs to another owner")
			assert.False(t, second.IsHeld(s.ctx))
			waiter := background(func() error { return second.Lock(s.ctx) })
			s.awaitWaiters(1, key)
			require.NoError(t, first.Unlock(s.ctx))
			require.NoError(t, s.await(waiter))
			forced, err := second.ForceUnlock(s.ctx)
			require.NoError(t, err)
			assert.True(t, forced)
		}
	})
}

func TestTokensAreGivenAfterTheScriptsWereFlushed(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.fenced()
		first := oneSection(s.ctx, t, lock)
		s.forget()
		assert.Greater(t, oneSection(s.ctx, t, lock), first)
	})
}

// broken are keys that cannot be counters, with the error of the lock.
var broken = map[string]struct {
	command []string
	err     error
	says    string
}{
	"a list":                     {[]string{"RPUSH", "x"}, rlock.ErrWrongType, tokenKey},
	"a word":                     {[]string{"SET", "x"}, rlock.ErrWrongType, tokenKey},
	"a negative number":          {[]string{"SET", "-5"}, rlock.ErrWrongType, tokenKey},
	"a counter that is worn out": {[]string{"SET", strconv.FormatInt(math.MaxInt64, 10)}, nil, "overflow (token counter " + tokenKey},
}

func TestAnInvalidTokenCounterIsAnErrorAtOnceAndTheLockStaysFree(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		needsWideNumbers(t, s.Kind)
		lock := s.fenced()
		for what, b := range broken {
			s.number("DEL", tokenKey)
			require.NoError(t, s.do(b.command[0], tokenKey, b.command[1:]...).Error())
			var err error
			for range 7 { // a counter that is refused is not counted up
				err = lock.Lock(s.ctx)
				require.Error(t, err, what)
			}
			if b.err != nil {
				assert.ErrorIs(t, err, b.err, what)
			}
			assert.ErrorContains(t, err, b.says, what)
			assert.Zero(t, s.number("EXISTS", key), what)
			assert.True(t, s.isFree(s.lock()), what)
		}
		s.number("DEL", tokenKey)
		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, s.do("SET", tokenKey, "x").Error())
		require.NoError(t, lock.Lock(s.ctx), "a holder needs the counter no longer")
		require.NoError(t, lock.Unlock(s.ctx))
		require.NoError(t, lock.Unlock(s.ctx))
		s.number("DEL", tokenKey)
	})
}

func TestTokensAreExactBeyondWhatLuaCanCount(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		needsWideNumbers(t, s.Kind)
		lock := s.fenced()
		for _, last := range []uint64{1 << 53, math.MaxInt64 - 1} {
			require.NoError(t, s.do("SET", tokenKey, fmt.Sprint(last)).Error())
			assert.Equal(t, last+1, oneSection(s.ctx, t, lock))
		}
		s.number("DEL", tokenKey)
	})
}

func TestAUserWithoutTheRightsToTheCounterGetsAnErrorAndHoldsNothing(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	needed := s.rights("FencedLock")
	rules := append(s.rights(s.aclLines()...), needed...)
	try := func(rules []string) error {
		client, err := rlock.New(s.limited(rules...))
		require.NoError(t, err)
		defer client.Close()
		_, err = client.NewFencedLock(key).Acquire(s.ctx, rlock.WithWait(0))
		return err
	}
	require.NoError(t, try(rules))
	for i, rule := range needed {
		n := len(rules) - len(needed) + i
		err := try(slices.Delete(slices.Clone(rules), n, n+1))
		assert.ErrorIs(t, err, rlock.ErrNoPermission, rule)
		assert.Zero(t, s.number("EXISTS", key), rule)
	}
}
