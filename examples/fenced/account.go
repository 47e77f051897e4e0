package main

import (
	"context"
	"database/sql"

	_ "modernc.org/sqlite" // the database

	"github.com/go-rlock/rlock/rlock"
)

// An account is a row in a table.
type account struct {
	*sql.DB
	fence bool
}

func openAccount(path string, fence bool) (*account, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	return &account{db, fence}, err
}

func (a *account) create(ctx context.Context) error {
	_, err := a.ExecContext(ctx, `
		CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, token INTEGER NOT NULL);
		INSERT INTO accounts VALUES (7, ?, 0)`, opening)
	return err
}

func (a *account) read(ctx context.Context) (balance int, err error) {
	err = a.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 7`).Scan(&balance)
	return balance, err
}

// write sets the balance. With a fence a stale write is refused: see sql.go.
func (a *account) write(ctx context.Context, balance int, hold *rlock.Hold) error {
	if a.fence {
		return write(ctx, a.DB, hold, `UPDATE accounts SET balance = ?1, token = ?2 WHERE id = 7 AND token <= ?2`, balance)
	}
	_, err := a.ExecContext(ctx, `UPDATE accounts SET balance = ? WHERE id = 7`, balance)
	return err
}
