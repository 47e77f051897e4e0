// Tick runs a job once per tick on one of five replicas. Each replica has a schedule of
// its own, and at each tick all of them ask for the lock of that tick. The replica that
// gets it runs the job and detaches the lock, which then ends with its lease, so that a
// replica whose clock is late is refused as well, also when the first one has ended:
//
//	go run ./examples/tick
//
// The lock is named after the tick, so that ticks do not exclude each other.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

const (
	replicas = 5
	ticks    = 3
	period   = 200 * time.Millisecond // of the schedule
	late     = 20 * time.Millisecond  // each replica is later than the one before
	lease    = 10 * time.Second       // longer than any replica is late
)

func main() { embedded.Main("tick", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	var (
		group  sync.WaitGroup
		runs   [ticks]atomic.Int64
		failed = make(chan error, replicas)
		begin  = time.Now()
	)
	for replica := range replicas {
		client, err := rlock.New(rlock.Config{Redis: options})
		if err != nil {
			return err
		}
		defer client.Close()
		group.Go(func() {
			for tick := range ticks {
				due := begin.Add(time.Duration(tick)*period + time.Duration(replica)*late)
				time.Sleep(time.Until(due))
				err := once(ctx, client, fmt.Sprint("example:report:", begin.UnixNano(), ":", tick), func() {
					runs[tick].Add(1)
					fmt.Printf("tick %d: replica %d runs the job\n", tick, replica)
				})
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	for tick := range runs {
		if n := runs[tick].Load(); n != 1 {
			return fmt.Errorf("at tick %d the job ran %d times", tick, n)
		}
	}
	fmt.Printf("%d ticks, %d replicas: the job ran once per tick\n", ticks, replicas)
	return nil
}

// once runs the job unless another replica has run it, or runs it, under that name.
func once(ctx context.Context, client *rlock.Client, name string, job func()) error {
	hold, err := client.NewLock(name).Acquire(ctx, rlock.WithWait(0), rlock.WithLease(lease))
	if errors.Is(err, rlock.ErrNotAcquired) {
		return nil // another replica runs it
	}
	if err != nil {
		return err
	}
	job()
	return hold.Detach(ctx) // the lock is not released: it ends with its lease
}
