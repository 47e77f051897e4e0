package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// holderEnv makes this program the holder that will be killed.
const holderEnv = "QUICKSTART_HOLDER"

const crashName = "example:report"

// hold is all that the holder does: it takes the lock, says so, and works until
// it dies. Its input ends when the process that started it does, so that nothing
// is left behind in any case.
func hold() error {
	options, _, err := connect()
	if err != nil {
		return err
	}
	client, err := rlock.New(rlock.Config{Redis: options, Lease: lease})
	if err != nil {
		return err
	}
	if err := client.NewLock(crashName).Lock(context.Background()); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// killed starts the holder, lets the first client wait for its lock, and kills the holder.
func killed(ctx context.Context, clients []*rlock.Client, addr string) (string, error) {
	command, err := redistest.Self(holderEnv + "=1")
	if err != nil {
		return "", err
	}
	command.Env = append(command.Env, addrEnv+"="+addr)
	holder, err := redistest.Converse(command)
	if err != nil {
		return "", err
	}
	defer holder.Kill()
	if _, err := holder.Hear(time.Minute); err != nil {
		return "", fmt.Errorf("the holder did not get the lock: %w", err)
	}
	say("holder", "process %d holds %s", holder.ID(), crashName)

	// Acquire returns a handle, which any goroutine may release; Lock would
	// belong to the goroutine that called it.
	type outcome struct {
		hold *rlock.Hold
		err  error
	}
	acquired := make(chan outcome, 1)
	go func() {
		hold, err := clients[0].NewLock(crashName).Acquire(ctx)
		acquired <- outcome{hold, err}
	}()
	say(clientName(0), "waits for it")

	select {
	case <-time.After(lease + lease/3):
		say("holder", "still holds it after %v: its watchdog renews it", (lease + lease/3).Round(time.Millisecond))
	case got := <-acquired:
		return "", fmt.Errorf("the lock of a living holder was granted to another (%v)", got.err)
	}
	died := time.Now()
	holder.Kill()
	say("holder", "killed: it could not unlock, and its lease is not renewed")

	got := <-acquired
	if got.err != nil {
		return "", got.err
	}
	waited := time.Since(died).Round(time.Millisecond)
	say(clientName(0), "holds it, %v after the kill", waited)
	if err := got.hold.Release(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("a dead holder's lock was free again after %v: its lease was %v", waited, lease), nil
}
