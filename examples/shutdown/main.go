// Shutdown ends a process that holds locks and waits for others, in this order: it stops
// to accept work, lets the work in progress end for a limited time, and closes the client.
// No lock stays behind for the lease:
//
//	go run ./examples/shutdown
//
// Close releases the locks that are still held, ends their contexts with ErrClosed, and
// returns ErrClosed to waiting callers.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const grace = time.Second // for work in progress

func main() { embedded.Main("shutdown", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	client, err := rlock.New(rlock.Config{Redis: options}) // the lease is 30 s
	if err != nil {
		return err
	}
	defer client.Close() // a second Close does nothing
	other, err := rlock.New(rlock.Config{Redis: options})
	if err != nil {
		return err
	}
	defer other.Close()

	// In a service: ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM).
	accept, terminate := context.WithCancel(ctx)
	defer terminate()
	var (
		jobs    sync.WaitGroup
		started = make(chan struct{})
		quick   = make(chan error, 1)
		slow    = make(chan error, 1)
		waiting = make(chan error, 1)
	)
	jobs.Go(func() { quick <- job(accept, client, "example:quick", started, 50*time.Millisecond) })
	jobs.Go(func() { slow <- job(accept, client, "example:slow", started, time.Minute) })
	<-started
	<-started
	jobs.Go(func() {
		// This one waits for a lock. It stops waiting when accept ends.
		waiting <- client.NewLock("example:slow").Lock(accept)
	})

	terminate() // the signal
	fmt.Println("no new work is accepted")
	done := make(chan struct{})
	go func() { jobs.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(grace):
		fmt.Println("the time for work in progress is over")
	}
	if err := client.Close(); err != nil { // ErrUnconfirmed: locks end with their leases
		return err
	}
	<-done

	if err := <-waiting; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the waiting caller got %w", err)
	}
	fmt.Println("the waiting caller gave up")
	if err := <-quick; err != nil {
		return fmt.Errorf("the quick job: %w", err)
	}
	fmt.Println("the quick job finished")
	if err := <-slow; !errors.Is(err, rlock.ErrClosed) {
		return fmt.Errorf("the slow job: %w", err)
	}
	fmt.Println("the slow job was interrupted: the client is closed")

	for _, name := range []string{"example:quick", "example:slow"} {
		free, err := other.NewLock(name).TryLock(ctx)
		if err != nil {
			return err
		}
		if !free {
			return fmt.Errorf("%s is still locked", name)
		}
		if err := other.NewLock(name).Unlock(ctx); err != nil {
			return err
		}
	}
	fmt.Println("both locks are free")
	return nil
}

// job works with the lock held, until it has finished or the lock is gone. ctx limits the wait for the
// lock and not the work: hold.Context() does not end with it.
func job(ctx context.Context, client *rlock.Client, name string, started chan<- struct{}, work time.Duration) (err error) {
	hold, err := client.NewLock(name).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hold.Release(ctx)) }()
	started <- struct{}{}
	select {
	case <-time.After(work):
		return nil
	case <-hold.Context().Done():
		return context.Cause(hold.Context())
	}
}
