// Package fenced has writes that a holder cannot make once its lock was granted to another: to a row in SQL, and to an
// object in a store with conditional writes. Each write carries the fencing token of its holder, and the row or the
// object keeps the last one. A holder that stands still for longer than its lease, and goes on, finds no row.
//
// The package is a module of its own, so that programs that use rlock need not download the database of its tests,
// modernc.org/sqlite.
package fenced

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-rlock/rlock/rlock"
)

// A payment, for SQLite and PostgreSQL. The row keeps the token of its last writer, and no writer with a smaller one
// finds it.
const payment = `UPDATE accounts SET balance = balance - $1, token = $2 WHERE id = 7 AND token <= $2`

// An insert needs the clause, too, for a row that there is by then.
const insertion = `INSERT INTO accounts (id, balance, token) VALUES (7, $1, $2)
	ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token
	WHERE accounts.token <= excluded.token`

var errStale = errors.New("the write was rejected: a later holder has written, or there is no such row")

// write executes a statement of one value and the token of the hold, and counts the rows that it has found.
func write(ctx context.Context, db *sql.DB, hold *rlock.Hold, statement string, value int) error {
	token, err := hold.Token()
	if err != nil { // not a fenced lock
		return err
	}
	result, err := db.ExecContext(ctx, statement, value, token)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err == nil && rows == 0 { // a stale write is no error to the database
		err = errStale
	}
	return err
}

// pay takes an amount from the account.
func pay(ctx context.Context, lock *rlock.Lock, db *sql.DB, amount int) (err error) {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }()
	return write(hold.With(ctx), db, hold, payment, amount) // its context ends with ctx and with the loss
}
