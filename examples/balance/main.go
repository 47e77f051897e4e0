// Balance is a holder that is stopped for longer than its lease, wakes, and takes money from an account in Redis:
//
//	go run ./examples/balance
//
// The account has 100, and two processes take 70 each. The first one has read the balance when it is stopped by SIGSTOP,
// as a pause of its machine would. Its lease ends; the second process has the lock, reads 100, and takes 70. Then the
// first goes on where it was.
//
//   - With the lock alone it takes 70 of the 30 that are left: no lease ends the work of a process that does not run.
//   - With a guarded write Redis looks, in the step that writes, whether the hold has the lock, and refuses. The first
//     process learns it, takes the lock again, and finds that the balance is too small.
//
// Look at the balance in the end. The difference in code is between account.bare and account.withdraw.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/internal/launch"
	"github.com/go-rlock/rlock/rlock"
)

const (
	name    = "example:account:7"
	lease   = time.Second // how long the first process is stopped for, at least
	opening = 100         // the balance at first
	amount  = 70          // what each process takes
	// way is the environment variable that makes this program the first process, and says how it writes.
	way = "EXAMPLE_WAY"
)

var ways = map[string]func(account, context.Context, int64, func(int64) error) error{
	"bare": account.bare, "guarded": account.withdraw,
}

func main() {
	log.SetFlags(0)
	task := run
	if os.Getenv(way) != "" {
		task = firstProcess
	}
	if err := task(); err != nil {
		log.Fatal("balance: ", err)
	}
}

// connect returns the account as a process has it, with clients of its own.
func connect(options rueidis.ClientOption) (a account, end func(), err error) {
	// A lost lock is logged; here the story tells it.
	client, err := rlock.New(rlock.Config{Redis: options, Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return a, nil, err
	}
	redis, err := rueidis.NewClient(options)
	if err != nil {
		client.Close()
		return a, nil, err
	}
	return account{client.NewLock(name), redis}, func() { client.Close(); redis.Close() }, nil
}

// firstProcess is all that the first process does. Its customer confirms with a line of its input.
func firstProcess() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, _, err := embedded.Redis()
	if err != nil {
		return err
	}
	a, end, err := connect(options)
	if err != nil {
		return err
	}
	defer end()
	withdraw := ways[os.Getenv(way)]
	err = withdraw(a, ctx, amount, func(left int64) error {
		say("first", "is granted the lock, and reads %d", left)
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	})
	if errors.Is(err, rlock.ErrFenced) {
		say("first", "is refused: it does not have the lock. It begins again")
		err = withdraw(a, ctx, amount, func(int64) error { return nil })
	}
	switch {
	case errors.Is(err, errTooLittle):
		say("first", "finds that the balance is too small")
		return nil
	case errors.Is(err, rlock.ErrLost):
		say("first", "takes %d, and is told by the release that it had lost the lock", amount)
		return nil
	}
	return err
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()
	a, end, err := connect(options)
	if err != nil {
		return err
	}
	defer end()
	balance := a.lock.Key("balance")
	defer func() { a.redis.Do(ctx, a.redis.B().Del().Key(balance).Build()) }()

	for _, story := range []struct {
		title, way string
		left       int64
	}{
		{"With the lock alone", "bare", opening - 2*amount},
		{"With a guarded write", "guarded", opening - amount},
	} {
		fmt.Println(story.title)
		if err := a.redis.Do(ctx, a.redis.B().Set().Key(balance).Value(fmt.Sprint(opening)).Build()).Error(); err != nil {
			return err
		}
		if err := tell(options.InitAddress[0], story.way, func() error {
			return ways[story.way](a, ctx, amount, func(left int64) error {
				say("second", "is granted the lock, reads %d, and takes %d", left, amount)
				return nil
			})
		}); err != nil {
			return err
		}
		left, err := a.redis.Do(ctx, a.redis.B().Get().Key(balance).Build()).AsInt64()
		if err != nil {
			return err
		}
		fmt.Printf("   => the balance is %d\n", left)
		if left != story.left {
			return fmt.Errorf("it should be %d", story.left)
		}
	}
	return nil
}

// tell stops the first process when it has read the balance, and lets it go on when the second has had its turn.
func tell(addr, how string, second func() error) error {
	command, err := launch.Self(way + "=" + how)
	if err != nil {
		return err
	}
	command.Env = append(command.Env, embedded.AddrEnv+"="+addr)
	command.Stderr = os.Stderr
	read := make(chan bool, 2) // it may begin again
	first, err := launch.Start(command, func(line string) {
		fmt.Println(line)
		if strings.Contains(line, "reads") {
			read <- true
		}
	})
	if err != nil {
		return err
	}
	defer first.Kill()
	select {
	case <-read:
	case <-first.Gone():
		return errors.New("the first process has not read the balance")
	}
	if err := first.Suspend(); err != nil {
		return err
	}
	say("first", "is stopped")
	if err := second(); err != nil { // waits until the lease of the first has ended
		return err
	}
	if err := first.Say(""); err != nil {
		return err
	}
	say("first", "goes on")
	if err := first.Resume(); err != nil {
		return err
	}
	return first.Wait()
}

func say(who, what string, args ...any) {
	fmt.Printf("   %-7s%s\n", who, fmt.Sprintf(what, args...))
}
