package main

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the database

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

// An account is the row of the story.
type account struct {
	*sql.DB
	fence bool
}

func openAccount(path string, fence bool) (*account, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	return &account{db, fence}, err
}

// create makes the table. Tokens begin at 1.
func (a *account) create(ctx context.Context) error {
	_, err := a.ExecContext(ctx, `CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, token BIGINT NOT NULL DEFAULT 0)`)
	return err
}

func (a *account) read(ctx context.Context) (balance int, err error) {
	err = a.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 7`).Scan(&balance)
	return balance, err
}

// set sets the balance. With a fence a stale write is refused.
func (a *account) set(ctx context.Context, balance int, hold *rlock.Hold) error {
	if a.fence {
		return write(ctx, a.DB, hold, `UPDATE accounts SET balance = $1, token = $2 WHERE id = 7 AND token <= $2`, balance)
	}
	_, err := a.ExecContext(ctx, `UPDATE accounts SET balance = $1 WHERE id = 7`, balance)
	return err
}
