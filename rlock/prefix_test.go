package rlock_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// withPrefix sets Config.Prefix.
func withPrefix(prefix string) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Prefix = prefix }
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
				bubble(t, func(t *testing.T, w *world) {
					var names []string
					observer := &rlock.Observer{
						Acquired: func(_ context.Context, i rlock.AcquiredInfo) { names = append(names, i.Name) },
						Released: func(_ context.Context, i rlock.ReleasedInfo) { names = append(names, i.Name) },
					}
					with, without := w.client(withPrefix(prefix), func(c *rlock.Config) { c.Observer = observer }), w.client()
					lock := newLock(with.Client, "orders:42")
					assert.Equal(t, "orders:42", lock.Name())
					hold, err := lock.Acquire(w.ctx)
					require.NoError(t, err)
					assert.True(t, w.Exists(prefix+"orders:42"), "%q", w.Keys())
					assert.Equal(t, "orders:42", with.Held()[0].Name)
					i, err := with.Inspect(w.ctx, "orders:42")
					require.NoError(t, err)
					assert.Equal(t, "orders:42", i.Name)
					assert.Len(t, i.Holders, 1)
					for _, pattern := range []string{"", "orders:*"} {
						var found []string
						for name, err := range with.Locks(w.ctx, pattern) {
							require.NoError(t, err)
							found = append(found, name)
						}
						assert.Equal(t, []string{"orders:42"}, found)
					}
					answers, err := without.Ask(w.ctx, with.ID())
					require.NoError(t, err)
					assert.Equal(t, prefix+"orders:42", answers[0].Uses[0].Name, "to a client without the prefix")
					answers, err = with.Ask(w.ctx, with.ID())
					require.NoError(t, err)
					assert.Equal(t, "orders:42", answers[0].Uses[0].Name)
					require.NoError(t, hold.Release(w.ctx))
					assert.Equal(t, []string{"orders:42", "orders:42"}, names)
				})
			})
		}
	}
}

func TestThePartsOfAMultiLockHaveThePrefixesOfTheirClients(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(withPrefix("a:")), w.client(withPrefix("b:"))
		both := rlock.NewMultiLock(a.NewLock("x"), b.NewLock("x"))
		assert.Equal(t, "a:x,b:x", both.Name())
		require.NoError(t, both.Do(w.ctx, func(context.Context) error {
			assert.True(t, w.Exists("a:x") && w.Exists("b:x"))
			return nil
		}))
	})
}

func TestAnEmptyNameIsRefusedWithAPrefixToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.ErrorIs(t, w.client(withPrefix("a:")).NewLock("").Lock(w.ctx), rlock.ErrInvalidName)
	})
}

func TestErrorsHaveTheNameThatRedisHas(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		err := w.client(withPrefix("a:")).NewLock("x").Unlock(w.ctx)
		require.ErrorContains(t, err, `"a:x"`)
	})
}

// A prefix with a hash tag keeps all locks of a service in one slot of a Cluster.
func TestAPrefixOnServers(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		with, without := s.client(withPrefix("{billing}:")), s.client()
		lock := with.NewLock("orders:42")
		require.NoError(t, lock.Lock(s.ctx))
		locked, err := without.NewLock("{billing}:orders:42").IsLocked(s.ctx)
		require.NoError(t, err)
		assert.True(t, locked)
		var names []string
		for name, err := range with.Locks(s.ctx, "") {
			require.NoError(t, err)
			names = append(names, name)
		}
		assert.Equal(t, []string{"orders:42"}, slices.Compact(names))
		require.NoError(t, lock.Unlock(s.ctx))
	})
}
