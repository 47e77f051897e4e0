// Fenced is a holder that is stopped for longer than its lease, wakes, and writes:
//
//	go run -C examples/fenced .
//
// Two processes add money to an account, in a table of a SQL database. Each reads
// the balance, adds to it, and writes it back, with the lock held. The first one is
// stopped in between, by SIGSTOP, as a pause of its machine would. No lock can help
// it: its lease ends, the second process is granted the lock, reads, and writes. Then
// the first goes on where it was, and writes what it has computed from a balance
// that is no longer true.
//
//   - Without a fence its write is accepted, and what the second has added is lost.
//   - With a fence each write carries the fencing token of its holder, and the table
//     keeps the last one: UPDATE ... WHERE token <= ?. The stale write finds no row.
//     The first process learns it, takes the lock again, and does it right.
//
// Look at the balance in the end. The difference in code is account.write.
//
// The tests run the same on PostgreSQL, if it is installed, and show a fence in an object store.
//
// The example is a module of its own, so that programs that use rlock need not download
// the database, modernc.org/sqlite.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	lockName = "example:account:7"
	lease    = 2 * time.Second // how long the first process must be stopped for

	opening = 100 // the balance at first
	firsts  = 50  // the additions of the first process
	seconds = 30  // and the second
)

func main() {
	log.SetFlags(0)
	var err error
	if os.Getenv(holderEnv) != "" {
		err = firstProcess()
	} else {
		err = run()
	}
	if err != nil {
		log.Fatal("fenced: ", err)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()
	defer forget(options)
	client, err := rlock.New(rlock.Config{Redis: options, Lease: lease})
	if err != nil {
		return err
	}
	defer client.Close()
	dir, err := os.MkdirTemp("", "fenced")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	fmt.Println("Without a fence")
	balance, err := story(ctx, client, options.InitAddress[0], filepath.Join(dir, "bare.db"), false)
	switch {
	case err != nil:
		return err
	case balance != opening+firsts:
		return fmt.Errorf("nothing was lost without a fence: the balance is %d", balance)
	}
	fmt.Printf("   => the balance is %d, and should be %d: %d are lost\n", balance, opening+firsts+seconds, seconds)

	fmt.Println("\nWith a fence")
	balance, err = story(ctx, client, options.InitAddress[0], filepath.Join(dir, "fenced.db"), true)
	switch {
	case err != nil:
		return err
	case balance != opening+firsts+seconds:
		return fmt.Errorf("money was lost in spite of the fence: the balance is %d", balance)
	}
	fmt.Printf("   => the balance is %d, as it should be: the stale write was refused\n", balance)
	return nil
}

// story returns the balance after both processes have added to it.
func story(ctx context.Context, client *rlock.Client, addr, database string, fence bool) (balance int, err error) {
	acc, err := openAccount(database, fence)
	if err != nil {
		return 0, err
	}
	defer acc.Close()
	if err := acc.create(ctx); err != nil {
		return 0, err
	}

	first, err := startFirst(addr, database, fence)
	if err != nil {
		return 0, err
	}
	defer first.Kill()
	if err := first.Suspend(); err != nil {
		return 0, err
	}
	say("first", "is stopped, before it writes %d + %d", opening, firsts)

	stopped := time.Now()
	hold, err := client.NewFencedLock(lockName).Acquire(ctx)
	if err != nil {
		return 0, err
	}
	token, err := hold.Token()
	if err != nil {
		return 0, err
	}
	balance, err = acc.read(ctx)
	if err != nil {
		return 0, err
	}
	say("second", "is granted the lock after %v, token %d, and reads %d", time.Since(stopped).Round(100*time.Millisecond), token, balance)
	if err := acc.write(ctx, balance+seconds, hold); err != nil {
		return 0, fmt.Errorf("the second process could not write: %w", err)
	}
	say("second", "writes %d, and releases", balance+seconds)
	if err := hold.Release(ctx); err != nil {
		return 0, err
	}

	if err := first.Say(""); err != nil { // its work, and its write, as soon as it wakes
		return 0, err
	}
	say("first", "goes on")
	if err := first.Resume(); err != nil {
		return 0, err
	}
	if err := first.Wait(); err != nil {
		return 0, err
	}
	return acc.read(ctx)
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
