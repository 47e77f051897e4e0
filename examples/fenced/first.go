package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-rlock/rlock/examples/internal/embedded"
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

// A first is the first process, as the second sees it.
type first struct {
	process *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
}

func startFirst(ctx context.Context, addr, database string, fence bool) (*first, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &first{process: exec.CommandContext(ctx, program)}
	f.process.Env = append(os.Environ(), embedded.AddrEnv+"="+addr, holderEnv+"="+database)
	if fence {
		f.process.Env = append(f.process.Env, fenceEnv+"=1")
	}
	f.process.Stderr = os.Stderr
	if f.input, err = f.process.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := f.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.output = bufio.NewReader(output)
	return f, f.process.Start()
}

// hears prints the output of the process, up to the line that contains the text.
func (f *first) hears(text string) error {
	for {
		line, err := f.output.ReadString('\n')
		fmt.Print(line)
		switch {
		case err != nil:
			return fmt.Errorf("the first process ended before it said that it %s: %w", text, err)
		case strings.Contains(line, text):
			return nil
		}
	}
}

// goOn tells a stopped process to do its work and its write as soon as it wakes.
func (f *first) goOn() error {
	if _, err := io.WriteString(f.input, "\n"); err != nil {
		return err
	}
	return f.wake()
}

// ends prints the rest of the output.
func (f *first) ends() error {
	if _, err := io.Copy(os.Stdout, f.output); err != nil {
		return err
	}
	return f.process.Wait()
}

func (f *first) kill() { _ = f.process.Process.Kill() } // fails only if it has ended
