// Fenced is a holder that stands still for longer than its lease, and then writes:
//
//	go run -C examples/fenced .
//
// Two holders add money to an account, in a table of a SQL database. Each reads
// the balance, adds to it, and writes it back, with the lock held. The first one
// stands still in between, as in a pause of its machine: nothing renews its lease.
// No lock can help it: its lease ends, the second is granted the lock, reads, and
// writes. Then the first goes on where it was, and writes what it has computed from
// a balance that is no longer true.
//
//   - Without a fence its write is accepted, and what the second has added is lost.
//   - With a fence each write carries the fencing token of its holder, and the table
//     keeps the last one: UPDATE ... WHERE token <= ?. The stale write finds no row.
//     The first holder learns it, takes the lock again, and does it right.
//
// Look at the balance in the end. The difference in code is account.set.
//
// The tests show a fence in an object store, too: see object.go.
//
// The example is a module of its own, so that programs that use rlock need not download
// the database, modernc.org/sqlite.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	lockName = "example:account:7"
	lease    = time.Second // of the first holder

	opening = 100 // the balance at first
	firsts  = 50  // the additions of the first holder
	seconds = 30  // and the second
)

func main() { embedded.Main("fenced", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	defer forget(options)
	var locks [2]*rlock.Lock // as two processes have them
	for i := range locks {
		// A lost lock is logged; here the story tells it.
		client, err := rlock.New(rlock.Config{Redis: options, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer client.Close()
		locks[i] = client.NewFencedLock(lockName)
	}
	dir, err := os.MkdirTemp("", "fenced")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fmt.Println("Without a fence")
	balance, err := story(ctx, locks, filepath.Join(dir, "bare.db"), false)
	switch {
	case err != nil:
		return err
	case balance != opening+firsts:
		return fmt.Errorf("nothing was lost without a fence: the balance is %d", balance)
	}
	fmt.Printf("   => the balance is %d, and should be %d: %d are lost\n", balance, opening+firsts+seconds, seconds)

	fmt.Println("\nWith a fence")
	balance, err = story(ctx, locks, filepath.Join(dir, "fenced.db"), true)
	switch {
	case err != nil:
		return err
	case balance != opening+firsts+seconds:
		return fmt.Errorf("money was lost in spite of the fence: the balance is %d", balance)
	}
	fmt.Printf("   => the balance is %d, as it should be: the stale write was refused\n", balance)
	return nil
}

// story returns the balance after both holders have added to it.
func story(ctx context.Context, locks [2]*rlock.Lock, database string, fence bool) (balance int, err error) {
	acc, err := openAccount(database, fence)
	if err != nil {
		return 0, err
	}
	defer acc.Close()
	if err := acc.create(ctx); err != nil {
		return 0, err
	}
	if _, err := acc.ExecContext(ctx, `INSERT INTO accounts (id, balance) VALUES (7, $1)`, opening); err != nil {
		return 0, err
	}
	atOnce := func() error { return nil }
	// A lock with a lease of its own is not renewed, as that of a process that is stopped.
	err = deposit(ctx, "first", locks[0], acc, firsts, func() error {
		say("first", "stands still, before it writes %d + %d", opening, firsts)
		if err := deposit(ctx, "second", locks[1], acc, seconds, atOnce); err != nil { // waits until the lease has ended
			return err
		}
		say("first", "goes on")
		return nil
	}, rlock.WithLease(lease))
	switch {
	case errors.Is(err, errStale):
		say("first", "is refused: it stood still for too long. It begins again")
		err = deposit(ctx, "first", locks[0], acc, firsts, atOnce)
	case errors.Is(err, rlock.ErrLost):
		say("first", "is told by Release that it had lost the lock, after its write")
		err = nil
	}
	if err != nil {
		return 0, err
	}
	return acc.read(ctx)
}

// deposit adds to the balance, which takes the work.
func deposit(ctx context.Context, who string, lock *rlock.Lock, acc *account, amount int, work func() error, o ...rlock.AcquireOption) (err error) {
	hold, err := lock.Acquire(ctx, o...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }() // ErrLost, if it stood still for too long
	token, err := hold.Token()
	if err != nil {
		return err
	}
	balance, err := acc.read(ctx)
	if err != nil {
		return err
	}
	say(who, "is granted the lock, token %d, and has read %d", token, balance)
	if err := work(); err != nil {
		return err
	}
	// It could ask hold.Valid() here, and stand still after the answer.
	if err := acc.set(ctx, balance+amount, hold); err != nil {
		return err
	}
	say(who, "writes %d", balance+amount)
	return nil
}

// forget deletes the counter of the tokens. It may go with what the tokens protect,
// and not before.
func forget(options rueidis.ClientOption) {
	redis, err := rueidis.NewClient(options)
	if err != nil {
		return
	}
	defer redis.Close()
	redis.Do(context.Background(), redis.B().Del().Key("redisson_lock_token:{"+lockName+"}").Build())
}

func say(who, what string, args ...any) {
	fmt.Printf("   %-7s %s\n", who, fmt.Sprintf(what, args...))
}
