package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/internal/launch"
	"github.com/go-rlock/rlock/rlock"
)

// holderEnv makes this program the first process: it names the database, and
// fenceEnv says whether there is a fence.
const (
	holderEnv = "FENCED_DATABASE"
	fenceEnv  = "FENCED_FENCE"
)

// firstProcess is all that the first process does. Its input ends when the process
// that started it does, so that nothing is left behind in any case.
func firstProcess() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, _, err := embedded.Redis()
	if err != nil {
		return err
	}
	// A lost lock is logged; here the story tells it.
	client, err := rlock.New(rlock.Config{Redis: options, Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer client.Close()
	acc, err := openAccount(os.Getenv(holderEnv), os.Getenv(fenceEnv) != "")
	if err != nil {
		return err
	}
	defer acc.Close()

	lock := client.NewFencedLock(lockName)
	err = deposit(ctx, lock, acc, func() error { // while it is stopped, its input is written
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	})
	switch {
	case errors.Is(err, errStale):
		say("first", "is refused: it was stopped for too long. It begins again")
		return deposit(ctx, lock, acc, func() error { return nil })
	case errors.Is(err, rlock.ErrLost):
		say("first", "is told by Release that it had lost the lock, after its write")
		return nil
	}
	return err
}

// deposit adds to the balance, which takes it some time.
func deposit(ctx context.Context, lock *rlock.Lock, acc *account, work func() error) (err error) {
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }() // ErrLost, if it was stopped for too long
	token, err := hold.Token()
	if err != nil {
		return err
	}
	balance, err := acc.read(ctx)
	if err != nil {
		return err
	}
	say("first", "is granted the lock, token %d, and has read %d", token, balance)
	if err := work(); err != nil {
		return err
	}
	// It could ask hold.Valid() here, and be stopped after the answer.
	if err := acc.write(ctx, balance+firsts, hold); err != nil {
		return err
	}
	say("first", "writes %d", balance+firsts)
	return nil
}

// startFirst starts the first process, and returns when it has read the balance.
func startFirst(addr, database string, fence bool) (*launch.Process, error) {
	command, err := launch.Self(holderEnv + "=" + database)
	if err != nil {
		return nil, err
	}
	command.Env = append(command.Env, embedded.AddrEnv+"="+addr)
	if fence {
		command.Env = append(command.Env, fenceEnv+"=1")
	}
	command.Stderr = os.Stderr
	read := make(chan bool, 2) // it may begin again
	first, err := launch.Start(command, func(line string) {
		fmt.Println(line)
		if strings.Contains(line, "has read") {
			read <- true
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-read:
		return first, nil
	case <-first.Gone():
		return nil, fmt.Errorf("the first process has not read the balance: %w", first.Wait())
	}
}
