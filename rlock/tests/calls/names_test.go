package calls_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
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
	<-queued
	require.NoError(t, here.Unlock(s.Ctx))
	require.NoError(t, s.Await(waiter))
	messages := heard.Heard() // one when the lock is free at last, and more if the listener is taken for a client of Redisson
	assert.NotEmpty(t, messages)
	assert.Empty(t, slices.DeleteFunc(messages, func(m string) bool { return m == "00" }))
	assert.Zero(t, s.Number("EXISTS", name))
}

func TestANameMayHaveAnyBytes(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		for _, n := range named {
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
			assert.ErrorIs(t, s.NewProcess().NewLock(n.name).Lock(s.Ctx), rlock.ErrInvalidName, n.what)
		}
	})
}

func TestANameWithABraceButNoTagIsRefusedInAClusterOnly(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		for _, n := range untagged {
			t.Run(n.what, func(t *testing.T) {
				if s.Kind == redistest.KindCluster {
					lock := s.NewClient().NewLock(n.name)
					err := lock.Lock(s.Ctx)
					require.ErrorIs(t, err, rlock.ErrInvalidName)
					assert.Equal(t, n.name, lock.Name())
					_, advice, ok := strings.Cut(err.Error(), `as in "`)
					require.True(t, ok, err)
					advised := s.NewClient().NewLock(strings.TrimSuffix(advice, `"`))
					require.NoError(t, advised.Lock(s.Ctx), "the name that the error advises")
					require.NoError(t, advised.Unlock(s.Ctx))
					return
				}
				worksWith(s, t, n.name, n.channel)
			})
		}
	})
}

// The lock of a client with a prefix is that of one without, by its name in Redis.
func TestAPrefixIsPartOfTheKeyAndNotOfTheName(t *testing.T) {
	kinds := map[rlock.Kind]func(c *rlock.Client, name string) *rlock.Lock{
		rlock.KindPlain:     (*rlock.Client).NewLock,
		rlock.KindFair:      (*rlock.Client).NewFairLock,
		rlock.KindFenced:    (*rlock.Client).NewFencedLock,
		rlock.KindRead:      func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Read() },
		rlock.KindWrite:     func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Write() },
		rlock.KindSemaphore: func(c *rlock.Client, name string) *rlock.Lock { return c.NewSemaphore(name, 1) },
		rlock.KindRed:       func(c *rlock.Client, name string) *rlock.Lock { return rlock.NewRedLock([]*rlock.Client{c}, name) },
	}
	for kind, newLock := range kinds {
		for _, prefix := range []string{"billing:", "{billing}:", `b[*]?\:`} {
			t.Run(string(kind)+" "+prefix, func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					var names []string
					observer := &rlock.Observer{
						Acquired: func(_ context.Context, i rlock.AcquiredInfo) { names = append(names, i.Name) },
						Released: func(_ context.Context, i rlock.ReleasedInfo) { names = append(names, i.Name) },
					}
					with := w.NewClient(testbed.WithPrefix(prefix), func(c *rlock.Config) { c.Observer = observer })
					lock := newLock(with.Client, "orders:42")
					assert.Equal(t, "orders:42", lock.Name())
					hold := testbed.Take(t, w.Ctx, lock)
					assert.True(t, w.Exists(prefix+"orders:42"), "%q", w.Keys())
					assert.Equal(t, "orders:42", with.Held()[0].Name)
					i, err := inspect.Of(with.Client).Lock(w.Ctx, "orders:42")
					require.NoError(t, err)
					assert.Equal(t, "orders:42", i.Name)
					assert.Len(t, i.Holders, 1)
					for _, pattern := range []string{"", "orders:*"} {
						found, err := testbed.Names(w.Ctx, with.Client, pattern)
						require.NoError(t, err)
						assert.Equal(t, []string{"orders:42"}, found)
					}
					require.NoError(t, hold.Release(w.Ctx))
					assert.Equal(t, []string{"orders:42", "orders:42"}, names)
					require.ErrorIs(t, newLock(with.Client, "").Lock(w.Ctx), rlock.ErrInvalidName)
				})
			})
		}
	}
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
