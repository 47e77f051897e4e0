package calls_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		s := testbed.At(t, redistest.Embedded(t))
		name := string(bytes)
		here, there := s.NewClient().NewLock(name), s.NewClient().NewLock(name)
		if len(name) == 0 || len(name) > 64<<10 {
			require.ErrorIs(t, here.Lock(s.Ctx), rlock.ErrInvalidName)
			return
		}
		require.NoError(t, here.Lock(s.Ctx))
		keys, err := s.Outside.Do(s.Ctx, s.Outside.B().Keys().Pattern("*").Build()).AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{name}, keys)
		assert.False(t, s.IsFree(there))
		require.NoError(t, here.Unlock(s.Ctx))
		assert.True(t, s.IsFree(there))
		require.Zero(t, s.Number("EXISTS", name))
	})
}

// A server that answers nonsense, and clients that publish nonsense: rlock returns a clear
// error or ignores it, and never panics or reports a false hold.

// value returns a RESP value of any shape.
func value(shape uint8, text string, number int64) string {
	line := strings.NewReplacer("\r", "", "\n", "").Replace(text)
	bulk := fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	shapes := []string{
		"_\r\n", "$-1\r\n", // null: the answer to an acquire that was granted
		"+" + line + "\r\n",
		"-" + line + "\r\n",
		"-ERR " + line + "\r\n",
		fmt.Sprintf(":%d\r\n", number),
		bulk,
		fmt.Sprintf("!%d\r\n%s\r\n", len(text), text),
		fmt.Sprintf("=%d\r\ntxt:%s\r\n", len(text)+4, text),
		"#t\r\n", "#f\r\n",
		fmt.Sprintf(",%g\r\n", float64(number)/3),
		fmt.Sprintf("(%d000000000000\r\n", number),
		"*0\r\n", "%0\r\n",
		"*2\r\n" + bulk + ":1\r\n",
		"~1\r\n" + bulk,
		"%1\r\n" + bulk + "*1\r\n_\r\n",
		"|1\r\n" + bulk + bulk + fmt.Sprintf(":%d\r\n", number),
	}
	return shapes[int(shape)%len(shapes)]
}

func isNull(shape uint8) bool { return int(shape)%19 < 2 }

// One reply has the wrong shape or a wrong value. Only a null in place of "held by another"
// is believed, and only until the next mirror.
func FuzzReply(f *testing.F) {
	for shape := range uint8(19) {
		f.Add(shape, "WRONGTYPE", int64(0), shape%8, shape%2 == 0)
		f.Add(shape, "0", int64(math.MaxInt64), uint8(1), true)
		f.Add(shape, "NOSCRIPT", int64(-7), uint8(2), false)
	}
	f.Fuzz(func(t *testing.T, shape uint8, text string, number int64, which uint8, foreign bool) {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			p, me, them := w.NewClient(), w.Caller(), w.Caller()
			lock := p.NewLock(testbed.Key)
			if foreign {
				w.HSet(testbed.Key, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1")
				w.SetTTL(testbed.Key, time.Hour)
			}
			p.Net.Rule(network.Nth(1+int(which%16), network.Replace(value(shape, text, number)), network.Reply,
				"EVALSHA", "EVAL", "HKEYS", "EXISTS", "PTTL"))

			taken, err := lock.TryLock(me)
			explained(t, err)
			if foreign && taken {
				require.True(t, isNull(shape))
			}
			if taken {
				if err := lock.Lock(me); err != nil {
					require.ErrorIs(t, err, rlock.ErrLost)
				}
			}
			ctx, cancel := context.WithTimeout(them, time.Minute)
			defer cancel()
			waiter := testbed.Start(func() error { return lock.Lock(ctx) })

			time.Sleep(11 * time.Second) // a renewal
			if lock.IsHeld(me) {
				require.False(t, foreign)
				require.Len(t, w.Fields(testbed.Key), 1)
				require.Contains(t, w.Fields(testbed.Key)[0], p.ID())
			}
			for lock.HoldCount(me) > 0 {
				explained(t, lock.Unlock(me))
			}
			_, err = lock.IsLocked(me)
			explained(t, err)
			_, err = lock.TTL(me)
			explained(t, err)
			if foreign {
				require.Len(t, w.Fields(testbed.Key), 1, "the hash of the other owner has changed")
				w.Del(testbed.Key)
				w.Publish(testbed.Channel, "0")
			}
			if err := <-waiter; err == nil {
				explained(t, lock.Unlock(them))
			} else {
				explained(t, err)
			}
			_, err = lock.ForceUnlock(me)
			explained(t, err)
			time.Sleep(time.Minute)
			assert.Empty(t, w.Keys())
			assert.Less(t, len(p.Net.Sent("")), 1000, "the client sends commands without a pause")
		})
	})
}

// explained asserts that an error, if there is one, names its lock.
func explained(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, rlock.ErrNotAcquired) {
		require.ErrorContains(t, err, "rlock: ")
		require.ErrorContains(t, err, testbed.Key)
	}
}
