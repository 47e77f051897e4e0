package calls_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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

// A named is a lock's name and the channel that Redisson gives it: Redisson adds braces
// unless the name has an opening one.
var named = []struct{ what, name, channel string }{
	{"a letter", "a", "redisson_lock__channel:{a}"},
	{"a tag", "{orders}:42", "redisson_lock__channel:{orders}:42"},
	{"a tag in the middle", "a{b}c", "redisson_lock__channel:a{b}c"},
	{"spaces, colons, quotes", ` a: "b" 'c'%d * `, `redisson_lock__channel:{ a: "b" 'c'%d * }`},
	{"line ends", "a\r\nb\n", "redisson_lock__channel:{a\r\nb\n}"},
	{"not ASCII", "Größe/注文🔒", "redisson_lock__channel:{Größe/注文🔒}"},
	{"NUL", "a\x00b", "redisson_lock__channel:{a\x00b}"},
	{"not UTF-8", "a\xff\xfe\xc3", "redisson_lock__channel:{a\xff\xfe\xc3}"},
	{"64 KiB", strings.Repeat("x", 64<<10), "redisson_lock__channel:{" + strings.Repeat("x", 64<<10) + "}"},
}

// untagged are names with a brace whose hash tag differs between key and channel: in a
// Cluster the two have different slots.
var untagged = []struct{ what, name, channel string }{
	{"an opening brace", "a{b", "redisson_lock__channel:a{b"},
	{"a closing brace", "a}b", "redisson_lock__channel:{a}b}"},
	{"an empty tag", "a{}b", "redisson_lock__channel:a{}b"},
	{"braces the wrong way round", "}a{", "redisson_lock__channel:}a{"},
}

// worksWith asserts that the lock excludes others under exactly these bytes, and that its channel
// has that name.
func worksWith(s *testbed.Site, t *testing.T, name, channel string) {
	here, there := s.NewClient().NewLock(name), s.NewClient().NewLock(name)
	assert.Equal(t, name, here.Name())
	heard := s.Listen(s.Family(), channel)
	require.NoError(t, here.Lock(s.Ctx))
	assert.EqualValues(t, 1, s.Number("HLEN", name))
	assert.False(t, s.IsFree(there))
	ctx, queued := testbed.Queueing(s.Ctx)
	waiter := testbed.Start(func() error {
		if err := there.Lock(ctx); err != nil {
			return err
		}
		return there.Unlock(ctx)
	})
	redistest.Await(t, queued)
	require.NoError(t, here.Unlock(s.Ctx))
	require.NoError(t, redistest.Await(t, waiter))
	messages := heard.Heard() // one when the lock is free at last, and more if the listener is taken for a client of Redisson
	assert.NotEmpty(t, messages)
	assert.Empty(t, slices.DeleteFunc(messages, func(m string) bool { return m == "00" }))
	assert.Zero(t, s.Number("EXISTS", name))
}

func TestANameMayHaveAnyBytes(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		names := named
		if s.Kind != redistest.KindCluster {
			names = append(names[:len(names):len(names)], untagged...)
		}
		for _, n := range names {
			t.Run(n.what, func(t *testing.T) { worksWith(s, t, n.name, n.channel) })
		}
	})
}

func TestALockOfEachKindRefusesANameWithABraceButNoTagInACluster(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		if s.Kind != redistest.KindCluster {
			return
		}
		for _, n := range untagged {
			lock := s.NewProcess().NewLock(n.name)
			err := lock.Lock(s.Ctx)
			require.ErrorIs(t, err, rlock.ErrInvalidName, n.what)
			if s.KindOfLock.Name == "plain" {
				assert.Equal(t, n.name, lock.Name())
				_, advice, ok := strings.Cut(err.Error(), `as in "`)
				require.True(t, ok, err)
				advised := s.NewClient().NewLock(strings.TrimSuffix(advice, `"`))
				require.NoError(t, advised.Do(s.Ctx, testbed.Nothing), "the name that the error advises")
			}
		}
	})
}

func TestThePartsOfAMultiLockHaveThePrefixesOfTheirClients(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		a, b := w.NewClient(testbed.WithPrefix("a:")), w.NewClient(testbed.WithPrefix("b:"))
		both := rlock.NewMultiLock(a.NewLock("x"), b.NewLock("x"))
		assert.Equal(t, "a:x,b:x", both.Name())
		require.NoError(t, both.Do(w.Ctx, func(context.Context) error {
			assert.True(t, w.Exists("a:x") && w.Exists("b:x"))
			return nil
		}))
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

// One reply at a time has the wrong shape or a wrong value. Only a null in place of "held by
// another" is believed, and only until the next mirror.
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
