package main

import (
	"context"
	"database/sql"

	_ "modernc.org/sqlite" // the database
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
		CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, token INTEGER);
		INSERT INTO accounts VALUES (7, ?, 0)`, opening)
	return err
}

func (a *account) read(ctx context.Context) (balance int, err error) {
	err = a.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 7`).Scan(&balance)
	return balance, err
}

// write reports whether the write was accepted. With a fence the row keeps the token
// of the last writer, and no writer with a smaller one finds it.
func (a *account) write(ctx context.Context, balance int, token uint64) (accepted bool, err error) {
	if !a.fence {
		_, err := a.ExecContext(ctx, `UPDATE accounts SET balance = ? WHERE id = 7`, balance)
		return err == nil, err
	}
	result, err := a.ExecContext(ctx, `UPDATE accounts SET balance = ?, token = ? WHERE id = 7 AND token <= ?`, balance, token, token)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}
