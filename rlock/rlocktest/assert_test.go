package rlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// asserting runs a test of the assertions: their errors go to r.
func asserting(t *testing.T, run func(t *testing.T, r *recorder, server *rlocktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		defer r.end()
		run(t, r, rlocktest.NewServer(r))
	})
}

func TestAssertFreeNamesTheHolder(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		server.Client()
		client := server.Client()
		assert.True(t, server.AssertFree(key))
		owner := rlock.NewOwner()
		require.NoError(t, client.NewLock(key).Lock(rlock.WithOwner(t.Context(), owner)))
		assert.False(t, server.AssertFree(key))
		assert.Equal(t, `rlocktest: the lock "orders:42" is not free: it is held by client 2, owner `+fmt.Sprint(owner)+
			`, for 25.001s unless it is renewed`, r.told())
		require.NoError(t, client.NewLock(key).Unlock(rlock.WithOwner(t.Context(), owner)))
		assert.True(t, server.AssertFree(key))
		assert.Empty(t, r.told())
	})
}

func TestAssertFreeWaitsForAReleaseThatIsUnderWay(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		hold, err := client.NewLock(key).Acquire(t.Context())
		require.NoError(t, err)
		server.Silence(client)
		require.ErrorIs(t, hold.Release(t.Context()), rlock.ErrUnconfirmed)
		healed := time.AfterFunc(time.Second, func() { server.Heal() })
		defer healed.Stop()
		assert.True(t, server.AssertFree(key), r.told())
	})
}

func TestNoAssertionWaitsForTheEndOfALease(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		for name, free := range map[string]func() bool{
			"AssertFree":        func() bool { return server.AssertFree(key) },
			"AssertNothingHeld": server.AssertNothingHeld,
		} {
			hold, err := client.NewLock(key).Acquire(t.Context(), rlock.WithLease(2*time.Second))
			require.NoError(t, err)
			assert.False(t, free(), name)
			assert.True(t, hold.Valid(), name)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}

func TestAssertHeldNamesTheHolder(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		a, b := server.Client(), server.Client()
		assert.False(t, server.AssertHeld(key, a))
		assert.Equal(t, `rlocktest: the lock "orders:42" is not held by client 1: it is free; no lock is held`, r.told())
		require.NoError(t, b.NewLock(key).Lock(rlock.WithOwner(t.Context(), rlock.NewOwner())))
		assert.True(t, server.AssertHeld(key, b))
		assert.Empty(t, r.told())
		assert.False(t, server.AssertHeld(key, a))
		assert.Contains(t, r.told(), `the lock "orders:42" is not held by client 1: it is held by client 2, owner `)
		server.Steal(key, time.Minute)
		assert.False(t, server.AssertHeld(key, b))
		assert.Contains(t, r.told(), `is not held by client 2: it is held by the client of Steal, owner 1`)
	})
}

func TestAssertNothingHeldFindsEachKindOfLock(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		for kind, acquire := range acquirers(client) {
			hold, err := acquire(t.Context())
			require.NoError(t, err)
			assert.False(t, server.AssertNothingHeld(), kind)
			assert.Contains(t, r.told(), `the lock "orders:42" is left: it is held by client 1, owner `, kind)
			require.NoError(t, hold.Release(t.Context()))
			assert.True(t, server.AssertNothingHeld(), kind)
		}
	})
}

func TestAssertNothingHeldFindsWaiters(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		server.Steal(key, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error)
		go func() { waited <- client.NewLock(key).Lock(ctx) }()
		synctest.Wait()
		assert.False(t, server.AssertNothingHeld())
		assert.Contains(t, r.told(), `a client waits for the lock of the queue "rlock_queue:{orders:42}"`)
		cancel()
		require.ErrorIs(t, <-waited, context.Canceled)
		server.Lose(key)
		assert.True(t, server.AssertNothingHeld(), r.told())
	})
}

func TestAssertNothingHeldPassesByOtherData(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		m := server.Miniredis()
		require.NoError(t, m.Set("stock", "3"))
		m.HSet("session:7", "user", "ada")
		m.HSet("times", "12:30", "1")
		assert.True(t, server.AssertNothingHeld(), r.told())
		assert.False(t, server.AssertFree("stock"))
		assert.Equal(t, `rlocktest: the lock "stock" is not free: its key is not that of a lock`, r.told())
	})
}

func TestALockThatWasPassedOnIsHeldByNone(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		for kind, acquire := range acquirers(client) {
			hold, err := acquire(t.Context())
			require.NoError(t, err)
			pass, err := hold.Pass(t.Context(), time.Minute)
			if errors.Is(err, rlock.ErrPass) { // of several
				require.NoError(t, hold.Release(t.Context()))
				continue
			}
			require.NoError(t, err)
			assert.False(t, server.AssertHeld(key, client), kind)
			assert.Contains(t, r.told(), "it is passed on by client 1, and not resumed yet", kind)
			assert.False(t, server.AssertNothingHeld(), kind)
			assert.Contains(t, r.told(), "it is passed on by client 1, and not resumed yet", kind)
			hold, err = client.Resume(t.Context(), pass)
			require.NoError(t, err)
			assert.True(t, server.AssertHeld(key, client), kind)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}
