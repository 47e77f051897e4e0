package contract

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func key(owner int) LossKey { return LossKey{Name: "lock", Owner: Owner{ID: uint64(owner)}} }

func TestALossIsOneAnswerForEachLevel(t *testing.T) {
	l, now := new(Losses), time.Now()
	require.True(t, l.None())
	l.Add(key(1), LostLevel{Until: now}, ErrLost)
	l.Add(key(1), LostLevel{Shared: true, Until: now.Add(time.Second)}, ErrLost)
	require.NoError(t, l.Blocks(key(2), now))
	require.ErrorIs(t, l.Blocks(key(1), now), ErrLost, "for as long as its longest level had asked for")
	require.NoError(t, l.Blocks(key(1), now.Add(time.Second)))
	l.Add(key(1), LostLevel{}, ErrLost)
	require.ErrorIs(t, l.Blocks(key(1), now.Add(time.Hour)), ErrLost, "the watchdog has no end")

	require.NoError(t, l.Unlock(key(2), false))
	require.ErrorIs(t, l.Unlock(key(1), true), ErrLost)
	require.NoError(t, l.Unlock(key(1), true), "it had one read level")
	require.ErrorIs(t, l.Unlock(key(1), false), ErrLost)
	require.ErrorIs(t, l.Cause(key(1)), ErrLost)
	require.ErrorIs(t, l.Unlock(key(1), false), ErrLost)
	require.NoError(t, l.Cause(key(1)))
	require.True(t, l.None())
}

func TestNoLossIsForgottenThatRefuses(t *testing.T) {
	l, now := new(Losses), time.Now()
	add := func(from int, level LostLevel) {
		for i := range maxEnded + 1000 {
			l.Add(key(from+i), level, ErrLost)
		}
	}
	add(0, LostLevel{})
	add(100_000, LostLevel{Until: now.Add(time.Hour)})

	add(200_000, LostLevel{Until: now})
	require.NotErrorIs(t, l.NotHeld(), ErrLost, "all are remembered: a sweep waits until there are twice as many")
	add(300_000, LostLevel{Until: now})
	require.ErrorIs(t, l.NotHeld(), ErrLost, "it may be one of those that were forgotten")
	assert.LessOrEqual(t, len(l.entries), 2*2*(maxEnded+1000))
	for i := range maxEnded + 1000 {
		require.ErrorIs(t, l.Unlock(key(i), false), ErrLost)
		require.ErrorIs(t, l.Unlock(key(100_000+i), false), ErrLost)
	}
	require.ErrorIs(t, l.Cause(key(300_000+maxEnded+999)), ErrLost, "the latest is remembered")
	require.NoError(t, l.Cause(key(200_000)))
}
