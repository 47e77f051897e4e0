package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

// locks returns a client on a Redis of its own.
func locks(t *testing.T) *rlock.Client {
	t.Helper()
	t.Setenv(embedded.AddrEnv, "")
	options, stop, err := embedded.Redis()
	require.NoError(t, err)
	t.Cleanup(stop)
	client, err := rlock.New(rlock.Config{Redis: options})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// staleAndValid returns two holds, of which the first does not know that it has lost the lock.
func staleAndValid(t *testing.T, client *rlock.Client) (stale, valid *rlock.Hold) {
	t.Helper()
	lock := client.NewFencedLock(lockName)
	stale, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	_, err = lock.ForceUnlock(t.Context()) // in place of a pause that outlasts its lease
	require.NoError(t, err)
	valid, err = lock.Acquire(t.Context())
	require.NoError(t, err)
	return stale, valid
}

func TestAStalePaymentFindsNoRow(t *testing.T) {
	ctx, client := t.Context(), locks(t)
	a, err := openAccount(filepath.Join(t.TempDir(), "accounts.db"), true)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	require.NoError(t, a.create(ctx))
	has := func(want int, why string) {
		t.Helper()
		balance, err := a.read(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, balance, why)
	}
	stale, valid := staleAndValid(t, client)

	require.ErrorIs(t, write(ctx, a.DB, valid, payment, 30), errStale, "there is no account yet")
	require.NoError(t, write(ctx, a.DB, valid, insertion, 100))
	require.ErrorIs(t, write(ctx, a.DB, stale, insertion, 500), errStale)
	has(100, "a stale insert changes nothing")
	require.ErrorIs(t, write(ctx, a.DB, stale, payment, 30), errStale)
	has(100, "nor does a stale payment")
	require.NoError(t, write(ctx, a.DB, valid, payment, 30))
	require.NoError(t, write(ctx, a.DB, valid, payment, 20), "a holder may write again")
	has(50, "both were its own")

	require.NoError(t, valid.Release(ctx))
	require.NoError(t, pay(ctx, client.NewFencedLock(lockName), a.DB, 40))
	has(10, "the next holder has paid")
	require.ErrorIs(t, write(ctx, a.DB, valid, payment, 10), errStale, "the holder before")
	require.ErrorIs(t, pay(ctx, client.NewLock(lockName), a.DB, 40), rlock.ErrNoToken)
	has(10, "nobody else has")
}
