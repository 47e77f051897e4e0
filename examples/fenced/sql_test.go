package main

import (
	"bufio"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

// A dialect is a database, with its statements.
type dialect struct {
	open        func(t *testing.T) *sql.DB
	pay, insert string
}

var dialects = map[string]dialect{
	"SQLite": {
		open: func(t *testing.T) *sql.DB {
			db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "accounts.db")+"?_pragma=busy_timeout(5000)")
			require.NoError(t, err)
			return db
		},
		pay: paySQLite, insert: insertSQLite,
	},
	"PostgreSQL": {
		open: func(t *testing.T) *sql.DB {
			db, err := sql.Open("postgres", "host="+startPostgreSQL(t)+" user=fenced dbname=postgres sslmode=disable")
			require.NoError(t, err)
			return db
		},
		pay: payPostgreSQL, insert: insertPostgreSQL,
	},
}

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
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			ctx, client, db := t.Context(), locks(t), d.open(t)
			t.Cleanup(func() { _ = db.Close() })
			_, err := db.ExecContext(ctx, `CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, token BIGINT NOT NULL DEFAULT 0)`)
			require.NoError(t, err)
			balance := func() (n int) {
				require.NoError(t, db.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = 7`).Scan(&n))
				return n
			}
			stale, valid := staleAndValid(t, client)

			require.ErrorIs(t, write(ctx, db, valid, d.pay, 30), errStale, "there is no account yet")
			require.NoError(t, write(ctx, db, valid, d.insert, 100))
			require.ErrorIs(t, write(ctx, db, stale, d.insert, 500), errStale)
			assert.Equal(t, 100, balance(), "a stale insert changes nothing")
			require.ErrorIs(t, write(ctx, db, stale, d.pay, 30), errStale)
			assert.Equal(t, 100, balance(), "nor does a stale payment")
			require.NoError(t, write(ctx, db, valid, d.pay, 30))
			require.NoError(t, write(ctx, db, valid, d.pay, 20), "a holder may write again")
			assert.Equal(t, 50, balance())

			require.NoError(t, valid.Release(ctx))
			require.NoError(t, pay(ctx, client.NewFencedLock(lockName), db, d.pay, 40))
			assert.Equal(t, 10, balance())
			require.ErrorIs(t, write(ctx, db, valid, d.pay, 10), errStale, "the holder before")
			require.ErrorIs(t, pay(ctx, client.NewLock(lockName), db, d.pay, 40), rlock.ErrNoToken)
			assert.Equal(t, 10, balance())
		})
	}
}

// startPostgreSQL starts a server of its own, and returns the folder of its socket.
func startPostgreSQL(t *testing.T) string {
	t.Helper()
	initdb, postgres := installed(t, "initdb"), installed(t, "postgres")
	dir, err := os.MkdirTemp("", "pg") // a short path, as a socket must have
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	output, err := unprivileged(t, dir, initdb, "-D", data, "-U", "fenced", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput()
	require.NoError(t, err, "%s", output)

	server := unprivileged(t, dir, postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-F")
	log, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt) // ends all sessions
		_ = server.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			go func() {
				for lines.Scan() { // else it would wait for the log to be read
				}
			}()
			return dir
		}
	}
	t.Fatal("PostgreSQL has ended")
	return ""
}

// installed returns the path of a program of PostgreSQL, and skips the test if there is none.
func installed(t *testing.T, program string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program) // Debian
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skipf("there is no %s: install PostgreSQL", program)
	}
	return paths[len(paths)-1]
}

// unprivileged returns a command that runs for a minute at most, and not as root, which PostgreSQL refuses.
func unprivileged(t *testing.T, dir string, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = dir
	drop(t, command)
	return command
}
