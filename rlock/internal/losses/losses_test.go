package losses

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

func key(owner int) Key { return Key{Name: "lock", Owner: terms.Owner{ID: uint64(owner)}} }

func TestALossIsOneAnswerForEachLevel(t *testing.T) {
	l, now := new(Losses), time.Now()
	require.True(t, l.None())
	l.Add(key(1), Level{Until: now}, terms.ErrLost)
	l.Add(key(1), Level{Shared: true, Until: now.Add(time.Second)}, terms.ErrLost)
	require.NoError(t, l.Blocks(key(2), now))
	require.ErrorIs(t, l.Blocks(key(1), now), terms.ErrLost, "for as long as its longest level had asked for")
	require.NoError(t, l.Blocks(key(1), now.Add(time.Second)))
	l.Add(key(1), Level{}, terms.ErrLost)
	require.ErrorIs(t, l.Blocks(key(1), now.Add(time.Hour)), terms.ErrLost, "the watchdog has no end")

	require.NoError(t, l.Unlock(key(2), false))
	require.ErrorIs(t, l.Unlock(key(1), true), terms.ErrLost)
	require.NoError(t, l.Unlock(key(1), true), "it had one read level")
	require.ErrorIs(t, l.Unlock(key(1), false), terms.ErrLost)
	require.ErrorIs(t, l.Cause(key(1)), terms.ErrLost)
	require.ErrorIs(t, l.Unlock(key(1), false), terms.ErrLost)
	require.NoError(t, l.Cause(key(1)))
	require.True(t, l.None())
}

func TestNoLossIsForgottenThatRefuses(t *testing.T) {
	l, now := new(Losses), time.Now()
	add := func(from int, level Level) {
		for i := range maxEnded + 1000 {
			l.Add(key(from+i), level, terms.ErrLost)
		}
	}
	add(0, Level{})
	add(100_000, Level{Until: now.Add(time.Hour)})
	require.NotErrorIs(t, l.NotHeld(), terms.ErrLost, "all are remembered")

	add(200_000, Level{Until: now})
	add(300_000, Level{Until: now})
	require.ErrorIs(t, l.NotHeld(), terms.ErrLost, "it may be one of those that were forgotten")
	assert.LessOrEqual(t, len(l.entries), 2*2*(maxEnded+1000))
	for i := range maxEnded + 1000 {
		require.ErrorIs(t, l.Unlock(key(i), false), terms.ErrLost)
		require.ErrorIs(t, l.Unlock(key(100_000+i), false), terms.ErrLost)
	}
	require.ErrorIs(t, l.Cause(key(300_000+maxEnded+999)), terms.ErrLost, "the latest is remembered")
	require.NoError(t, l.Cause(key(200_000)))
}
