package rlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A name may be any bytes: Redis shows exactly these bytes, and the lock works; or the name
// is refused, because it is empty or too long.
func FuzzName(f *testing.F) {
	for _, n := range named {
		f.Add([]byte(n.name))
	}
	for _, n := range untagged {
		f.Add([]byte(n.name))
	}
	f.Add([]byte{})
	f.Add([]byte(strings.Repeat("x", 64<<10+1)))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		s := at(t, redistest.Embedded(t))
		name := string(bytes)
		here, there := s.client().NewLock(name), s.client().NewLock(name)
		if len(name) == 0 || len(name) > 64<<10 {
			require.ErrorIs(t, here.Lock(s.ctx), rlock.ErrInvalidName)
			return
		}
		require.NoError(t, here.Lock(s.ctx))
		keys, err := s.outside.Do(s.ctx, s.outside.B().Keys().Pattern("*").Build()).AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{name}, keys)
		assert.False(t, s.isFree(there))
		require.NoError(t, here.Unlock(s.ctx))
		assert.True(t, s.isFree(there))
		require.Zero(t, s.number("EXISTS", name))
	})
}

// Owners nest, unlock and hand the lock off, and another client's hash may replace theirs at
// any time. The lock is never granted while that hash is there, and the hash is never
// changed: neither by a waiter, nor by an owner that had the lock before.
func FuzzOwner(f *testing.F) {
	f.Add([]byte("4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"), []byte("1"), uint8(3))
	f.Add([]byte(""), []byte(""), uint8(1))
	f.Add([]byte("mode"), []byte("read"), uint8(0))
	f.Add([]byte("4ea0a2a4-6f6f-8f7c-9d5c-2d8a3f9f1b11"), []byte("-1"), uint8(9))
	f.Add([]byte("\x00\xff:\r\n"), []byte("99999999999999999999"), uint8(255))
	f.Fuzz(func(t *testing.T, field, value []byte, owners uint8) {
		s := at(t, redistest.Embedded(t))
		client := s.client()
		lock := client.NewLock(key)
		foreign := map[string]string{string(field): string(value)}
		show := func() map[string]string {
			hash, err := s.do("HGETALL", key).AsStrMap()
			require.NoError(t, err)
			return hash
		}
		replace := func() {
			s.do("DEL", key)
			s.number("HSET", key, string(field), string(value))
		}

		replace()
		for range owners % 4 {
			ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
			taken, err := lock.TryLock(ctx)
			if err != nil { // the field is no owner of any program
				require.ErrorIs(t, err, rlock.ErrWrongType)
			}
			require.False(t, taken)
			require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrNotHeld)
		}
		require.Equal(t, foreign, show())
		require.EqualValues(t, 1, s.number("DEL", key))

		ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
		for depth := range 1 + int(owners)%16 {
			require.NoError(t, lock.Lock(ctx))
			require.Equal(t, depth+1, lock.HoldCount(ctx))
		}
		replace()
		if err := lock.Lock(ctx); err != nil { // a nested lock asks nothing, but its mirror, or an earlier one, finds the loss
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		require.Eventually(t, func() bool { return !lock.IsHeld(ctx) }, hang, time.Millisecond)
		require.ErrorIs(t, lock.Unlock(ctx), rlock.ErrLost)
		require.Equal(t, foreign, show())
		require.EqualValues(t, 1, s.number("DEL", key))

		require.NoError(t, lock.Lock(s.ctx))
		replace()
		require.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrLost)
		require.Equal(t, foreign, show())
		s.number("DEL", key)
	})
}
