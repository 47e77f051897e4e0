package kinds_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
