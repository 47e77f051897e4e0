// Command picture makes the picture of "rlock top" in docs/cli.md: it starts a fleet of
// processes that lock for some seconds, looks at them with the model of the command, and
// prints the last screen as SVG.
//
//	cd cmd/rlock && go run ./internal/top/picture --addr 127.0.0.1:6379 > ../../docs/top.svg
//
// The server should be empty, since all its locks are shown.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/redis/rueidis"
	"github.com/spf13/pflag"

	"github.com/go-rlock/rlock/cmd/rlock/internal/top"
	"github.com/go-rlock/rlock/rlock"
)

// asWorker in the environment makes this a process of the fleet; its value names the program.
const asWorker = "RLOCK_PICTURE_WORKER"

// programs are the fleet: the name of each program, its number of processes, and its work.
var programs = []struct {
	name  string
	count int
	work  func(ctx context.Context, c *rlock.Client) error
}{
	{"billing", 6, func(ctx context.Context, c *rlock.Client) error {
		return section(ctx, c.NewLock(fmt.Sprintf("orders:%d", 1+rand.IntN(4))), 40*time.Millisecond)
	}},
	{"shipping", 6, func(ctx context.Context, c *rlock.Client) error {
		return section(ctx, c.NewFairLock(fmt.Sprintf("orders:%d", 1+rand.IntN(2))), 80*time.Millisecond)
	}},
	{"encoder", 4, func(ctx context.Context, c *rlock.Client) error {
		return section(ctx, c.NewSemaphore("encode", 3), 700*time.Millisecond)
	}},
	{"catalogue", 3, func(ctx context.Context, c *rlock.Client) error {
		return section(ctx, c.NewReadWriteLock("catalogue").Read(), 2*time.Second)
	}},
	{"nightly", 1, func(ctx context.Context, c *rlock.Client) error {
		return section(ctx, c.NewFencedLock("nightly"), time.Hour)
	}},
}

// section works for some time, more or less, with the lock.
func section(ctx context.Context, lock *rlock.Lock, about time.Duration) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		select {
		case <-time.After(about/2 + rand.N(about)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func main() {
	addr := pflag.String("addr", "127.0.0.1:6379", "`host:port` of the server")
	looks := pflag.Int("looks", 12, "how many looks there are before the picture")
	width := pflag.Int("width", 100, "columns")
	height := pflag.Int("height", 14, "rows")
	pflag.Parse()
	run := func() error { return work(*addr, os.Getenv(asWorker)) }
	if os.Getenv(asWorker) == "" {
		run = func() error { return picture(os.Stdout, *addr, *looks, *width, *height) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect(addr string) (*rlock.Client, error) {
	return rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}})
}

// work runs the program of that name until the input ends.
func work(addr, name string) error {
	client, err := connect(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for _, program := range programs {
		for program.name == name {
			if err := program.work(ctx, client); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("there is no program %q", name)
}

// picture starts the fleet, looks, and writes the last screen.
func picture(out io.Writer, addr string, looks, width, height int) (failed error) {
	for _, program := range programs {
		for range program.count {
			cmd := exec.Command(os.Args[0], "--addr", addr)
			cmd.Args[0] = program.name // the name in the picture
			cmd.Env = append(os.Environ(), asWorker+"="+program.name)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			defer func() { failed = errors.Join(failed, stdin.Close(), cmd.Wait()) }()
		}
	}
	client, err := connect(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	model := top.NewModel(top.NewWatcher(client, 500), top.Options{Server: addr, Interval: time.Second, Order: top.ByWaiters, Count: looks})
	if _, err := tea.NewProgram(model, tea.WithInput(nil), tea.WithoutRenderer(), tea.WithWindowSize(width, height)).Run(); err != nil {
		return err
	}
	return writeSVG(out, strings.Split(model.View().Content, "\n"), width)
}
