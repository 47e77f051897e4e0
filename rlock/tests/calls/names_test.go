package calls_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// All keys and channels of a lock are in the slot of its name, whatever the name.
func TestALockOfEachKindMayHaveAnyName(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewProcess(), s.NewProcess()
		for _, n := range named {
			t.Run(n.what, func(t *testing.T) {
				require.NoError(t, here.NewLock(n.name).Lock(s.Ctx))
				assert.False(t, s.IsFree(there.NewLock(n.name)))
				require.NoError(t, here.NewLock(n.name).Unlock(s.Ctx))
				assert.True(t, s.IsFree(there.NewLock(n.name)))
			})
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

// Redisson: testName.
func TestANameWithABraceIsUsedAsItIsForKeysAndChannel(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		const name = "{test}:abc:key"
		l := s.NewClient().NewReadWriteLock(name)
		me := rlock.NewOwner()
		heard := s.Listen(s.Family(), "redisson_rwlock:"+name)
		require.NoError(t, l.Read().Lock(rlock.WithOwner(s.Ctx, me)))
		hash, err := s.Do("HGETALL", name).AsStrMap()
		require.NoError(t, err)
		for field := range hash {
			if field != "mode" {
				assert.Positive(t, s.Number("PTTL", name+":"+field+":rwlock_timeout:1"))
			}
		}
		assert.Len(t, hash, 2)
		require.NoError(t, l.Read().Unlock(rlock.WithOwner(s.Ctx, me)))
		assert.Equal(t, []string{"00"}, heard.Heard())
	})
}

func TestANameIsNeitherEmptyNorLongerThan64KiB(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		for _, name := range []string{"", strings.Repeat("x", 64<<10+1)} {
			assert.ErrorIs(t, client.NewLock(name).Lock(s.Ctx), rlock.ErrInvalidName)
		}
	})
}

func TestAnInvalidNameOrLeaseIsRefusedWithoutACommand(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		p := s.NewProcess()
		sent := s.Count(func() {
			nameless := p.NewLock("")
			assert.ErrorIs(t, nameless.Lock(s.Ctx), rlock.ErrInvalidName)
			assert.ErrorIs(t, nameless.LockFor(s.Ctx, time.Hour), rlock.ErrInvalidName)
			_, err := nameless.TryLock(s.Ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.TryLockFor(s.Ctx, time.Hour, 0)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			assert.ErrorIs(t, nameless.Unlock(s.Ctx), rlock.ErrInvalidName)
			_, err = nameless.ForceUnlock(s.Ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.IsLocked(s.Ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.TTL(s.Ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			_, err = nameless.Acquire(s.Ctx)
			assert.ErrorIs(t, err, rlock.ErrInvalidName)
			assert.ErrorIs(t, nameless.Do(s.Ctx, func(context.Context) error { panic("called") }), rlock.ErrInvalidName)
			assert.False(t, nameless.IsHeld(s.Ctx))

			lock := p.NewLock(testbed.Key)
			for _, lease := range []time.Duration{-time.Second, time.Nanosecond, time.Millisecond} {
				assert.ErrorIs(t, lock.LockFor(s.Ctx, lease), rlock.ErrInvalidLease)
				_, err = lock.TryLockFor(s.Ctx, time.Hour, lease)
				assert.ErrorIs(t, err, rlock.ErrInvalidLease)
				_, err = lock.Acquire(s.Ctx, rlock.WithLease(lease))
				assert.ErrorIs(t, err, rlock.ErrInvalidLease)
			}
		}, "evalsha", "eval", "exists", "pttl")
		assert.Zero(t, sent)
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
					with, without := w.NewClient(testbed.WithPrefix(prefix), func(c *rlock.Config) { c.Observer = observer }), w.NewClient()
					lock := newLock(with.Client, "orders:42")
					assert.Equal(t, "orders:42", lock.Name())
					hold, err := lock.Acquire(w.Ctx)
					require.NoError(t, err)
					assert.True(t, w.Exists(prefix+"orders:42"), "%q", w.Keys())
					assert.Equal(t, "orders:42", with.Held()[0].Name)
					i, err := with.Inspect(w.Ctx, "orders:42")
					require.NoError(t, err)
					assert.Equal(t, "orders:42", i.Name)
					assert.Len(t, i.Holders, 1)
					for _, pattern := range []string{"", "orders:*"} {
						var found []string
						for name, err := range with.Locks(w.Ctx, pattern) {
							require.NoError(t, err)
							found = append(found, name)
						}
						assert.Equal(t, []string{"orders:42"}, found)
					}
					synctest.Wait() // until the client has subscribed to its channel, where it is asked
					answers, err := without.Ask(w.Ctx, with.ID())
					require.NoError(t, err)
					assert.Equal(t, prefix+"orders:42", answers[0].Uses[0].Name, "to a client without the prefix")
					answers, err = with.Ask(w.Ctx, with.ID())
					require.NoError(t, err)
					assert.Equal(t, "orders:42", answers[0].Uses[0].Name)
					require.NoError(t, hold.Release(w.Ctx))
					assert.Equal(t, []string{"orders:42", "orders:42"}, names)
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

func TestAnEmptyNameIsRefusedWithAPrefixToo(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		require.ErrorIs(t, w.NewClient(testbed.WithPrefix("a:")).NewLock("").Lock(w.Ctx), rlock.ErrInvalidName)
	})
}

func TestErrorsHaveTheNameThatRedisHas(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		err := w.NewClient(testbed.WithPrefix("a:")).NewLock("x").Unlock(w.Ctx)
		require.ErrorContains(t, err, `"a:x"`)
	})
}

// A prefix with a hash tag keeps all locks of a service in one slot of a Cluster.
func TestAPrefixOnServers(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		with, without := s.NewClient(testbed.WithPrefix("{billing}:")), s.NewClient()
		lock := with.NewLock("orders:42")
		require.NoError(t, lock.Lock(s.Ctx))
		locked, err := without.NewLock("{billing}:orders:42").IsLocked(s.Ctx)
		require.NoError(t, err)
		assert.True(t, locked)
		var names []string
		for name, err := range with.Locks(s.Ctx, "") {
			require.NoError(t, err)
			names = append(names, name)
		}
		assert.Equal(t, []string{"orders:42"}, slices.Compact(names))
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}
