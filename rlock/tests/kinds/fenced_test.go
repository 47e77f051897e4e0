package kinds_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testTokenIncrease; TestAHoldKeepsItsToken has its nested locks.
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

func TestAHoldWithoutATokenReportsThat(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock := w.NewProcess().NewLock(testbed.Key)
		hold := testbed.Take(t, w.Ctx, lock)
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

// A token is that of the outermost level, and stays the token of its hold also after a loss.
func TestAHoldKeepsItsToken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, me := w.NewClient().NewFencedLock(testbed.Key), w.NewClient().NewFencedLock(testbed.Key), w.Caller()
		has := func(want uint64) {
			t.Helper()
			token, err := here.Token(me)
			require.NoError(t, err)
			assert.Equal(t, want, token)
		}
		require.NoError(t, here.Lock(me))
		first, err := here.Token(me)
		require.NoError(t, err)
		require.NoError(t, here.LockFor(me, time.Hour))
		hold := testbed.Take(t, me, here)
		assert.Equal(t, first, testbed.TokenOf(t, hold))
		require.NoError(t, hold.Release(w.Ctx))
		for range 2 {
			has(first)
			require.NoError(t, here.Unlock(me))
		}

		hold = testbed.Take(t, me, here)
		has(first + 1)
		testbed.Frees(t, w.Ctx, here)
		assert.Greater(t, testbed.OneSection(w.Ctx, t, there), first+1)
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		assert.Equal(t, first+1, testbed.TokenOf(t, hold), "the resource may refuse it")
	})
}

func TestOnlyTheHolderGetsAToken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		here, there := p.NewFencedLock(testbed.Key), w.NewClient().NewFencedLock(testbed.Key)
		refused := func(lock *rlock.Lock, ctx context.Context, err error) {
			t.Helper()
			token, got := lock.Token(ctx)
			assert.ErrorIs(t, got, err)
			assert.Zero(t, token)
		}
		refused(here, me, rlock.ErrNotHeld)
		hold := testbed.Take(t, w.Ctx, here)
		refused(here, me, rlock.ErrNotHeld) // the hold belongs to the handle
		require.NoError(t, hold.Release(w.Ctx))

		require.NoError(t, here.Lock(me))
		refused(there, me, rlock.ErrNotHeld)
		refused(here, w.Caller(), rlock.ErrNotHeld)
		testbed.Frees(t, w.Ctx, here)
		refused(here, me, rlock.ErrLost)
		require.ErrorIs(t, here.Unlock(me), rlock.ErrLost)
		refused(here, me, rlock.ErrNotHeld)
		refused(p.NewFencedLock(""), me, rlock.ErrInvalidName)
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
