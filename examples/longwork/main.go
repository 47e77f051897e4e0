// Longwork has two workers whose work takes longer than the lease of 10 s, 12 s
// and 19 s, and shows why that is no problem with the watchdog, and the events
// without:
//
//		go run ./examples/longwork               20 % of the times that it shows
//		go run ./examples/longwork -scale 1      all of them, in 50 s
//
//	  - With the watchdog the lease is renewed as long as the work goes on. The
//	    second worker starts when the first has ended, and a second Unlock of the
//	    first, by mistake, does not free the second's lock.
//	  - With a fixed lease the lock goes to the second worker while the first still
//	    works. The first is told at once, by Hold.Done, and again when it releases:
//	    ErrLost. Its release does not free the second's lock either.
//
// Look at when the second worker starts, and at what the first one is told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

var (
	scale = flag.Float64("scale", 0.2, "how long a second takes")
	start time.Time
)

// scaled returns how long so many seconds of the story take.
func scaled(seconds float64) time.Duration {
	return time.Duration(seconds * *scale * float64(time.Second))
}

// say prints a line of the timeline, in seconds of the story.
func say(who, what string, args ...any) {
	fmt.Printf("%7.1f s   %-9s  %s\n", time.Since(start).Seconds() / *scale, who, fmt.Sprintf(what, args...))
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal("longwork: ", err)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), scaled(120)+time.Minute)
	defer cancel()
	options, stop, err := embedded.Redis()
	if err != nil {
		return err
	}
	defer stop()

	config := rlock.Config{
		Redis: options,
		Lease: scaled(10),
		// A lost lock is logged; here the story tells it.
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	var locks [2]*rlock.Lock // the same one, of two clients
	for i := range locks {
		client, err := rlock.New(config)
		if err != nil {
			return err
		}
		defer client.Close()
		locks[i] = client.NewLock("example:report")
	}

	fmt.Println("With the watchdog")
	if err := watched(ctx, locks[0], locks[1]); err != nil {
		return err
	}
	fmt.Println("\nWith a fixed lease")
	return fixed(ctx, locks[0], locks[1])
}

// A grant is what an Acquire in another goroutine came to.
type grant struct {
	hold *rlock.Hold
	err  error
}

// queue acquires the lock in the background. The handle may be released from any
// goroutine; what Lock takes, only the goroutine that called it can unlock.
func queue(ctx context.Context, lock *rlock.Lock) <-chan grant {
	granted := make(chan grant, 1)
	go func() {
		hold, err := lock.Acquire(ctx)
		granted <- grant{hold, err}
	}()
	return granted
}

func watched(ctx context.Context, first, second *rlock.Lock) error {
	start = time.Now()
	one, err := first.Acquire(ctx)
	if err != nil {
		return err
	}
	say("worker 1", "has the lock, and works for 12 s")
	granted := queue(ctx, second)
	say("worker 2", "waits")

	time.Sleep(scaled(12))
	select {
	case two := <-granted:
		return fmt.Errorf("worker 2 got the lock while worker 1 worked: %w", two.err)
	default:
	}
	say("worker 1", "has ended, and releases")
	if err := one.Release(ctx); err != nil {
		return err
	}

	two := <-granted
	if two.err != nil {
		return two.err
	}
	say("worker 2", "has the lock, and works for 19 s")
	err = one.Release(ctx)
	if !errors.Is(err, rlock.ErrNotHeld) {
		return fmt.Errorf("the second release of worker 1 returned %w", err)
	}
	say("worker 1", "releases again, by mistake: %v", rlock.ErrNotHeld)

	time.Sleep(scaled(19))
	say("worker 2", "has ended, and releases")
	return two.hold.Release(ctx) // ErrLost if another client has freed it
}

func fixed(ctx context.Context, first, second *rlock.Lock) error {
	start = time.Now()
	one, err := first.Acquire(ctx, rlock.WithLease(scaled(10)))
	if err != nil {
		return err
	}
	say("worker 1", "has the lock for 10 s, and works for 12 s")
	granted := queue(ctx, second)
	say("worker 2", "waits")

	// Work that should stop with the lock takes one.Context().
	ended := time.After(scaled(12))
	select {
	case <-one.Context().Done():
		say("worker 1", "is told: %v", context.Cause(one.Context()))
	case <-ctx.Done():
		return errors.New("worker 1 was not told that its lease had ended")
	}
	two := <-granted
	if two.err != nil {
		return two.err
	}
	say("worker 2", "has the lock")

	<-ended
	err = one.Release(ctx)
	if !errors.Is(err, rlock.ErrLost) {
		return fmt.Errorf("the release of worker 1 returned %w", err)
	}
	say("worker 1", "has ended, and releases: %v", rlock.ErrLost)
	say("worker 2", "still has the lock: %t", two.hold.Valid())
	return two.hold.Release(ctx)
}
