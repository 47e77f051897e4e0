package fenced

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the database

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

const lockName = "example:account:7"

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
	ctx, client := t.Context(), rlocktest.New(t)
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "accounts.db"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(ctx, `CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, token BIGINT NOT NULL DEFAULT 0)`)
	require.NoError(t, err)
	has := func(want int, why string) {
		t.Helper()
		var balance int
		require.NoError(t, db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 7`).Scan(&balance))
		assert.Equal(t, want, balance, why)
	}
	stale, valid := staleAndValid(t, client)

	require.ErrorIs(t, write(ctx, db, valid, payment, 30), errStale, "there is no account yet")
	require.NoError(t, write(ctx, db, valid, insertion, 100))
	require.ErrorIs(t, write(ctx, db, stale, insertion, 500), errStale)
	has(100, "a stale insert changes nothing")
	require.ErrorIs(t, write(ctx, db, stale, payment, 30), errStale)
	has(100, "nor does a stale payment")
	require.NoError(t, write(ctx, db, valid, payment, 30))
	require.NoError(t, write(ctx, db, valid, payment, 20), "a holder may write again")
	has(50, "both were its own")

	require.NoError(t, valid.Release(ctx))
	require.NoError(t, pay(ctx, client.NewFencedLock(lockName), db, 40))
	has(10, "the next holder has paid")
	require.ErrorIs(t, write(ctx, db, valid, payment, 10), errStale, "the holder before")
	require.ErrorIs(t, pay(ctx, client.NewLock(lockName), db, 40), rlock.ErrNoToken)
	has(10, "nobody else has")
}
