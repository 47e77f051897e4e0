// Quickstart shows what the lock does, as it happens, in less than ten seconds:
//
//		go run ./examples/quickstart
//
//	 1. a lock, and what it is in Redis;
//	 2. the same lock again, three levels deep: the lower levels wait for nothing;
//	 3. ten goroutines of three clients, each of which could as well be a machine
//	    of its own: one at a time;
//	 4. a holder that is killed: the watchdog had kept its lock beyond the lease,
//	    and when the renewals end, the next waiter gets it.
//
// Look at part 3, where no two bars share a column, and at part 4, where the
// holder is a real process that gets no chance to clean up.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
)

// lease is short, so that a dead holder is replaced while you watch, and not so
// short that a busy machine takes a living one for dead. The default is 30 s.
const lease = 2500 * time.Millisecond

func main() {
	log.SetFlags(0)
	run := show
	if os.Getenv(holderEnv) != "" {
		run = hold
	}
	if err := run(); err != nil {
		log.Fatal("quickstart: ", err)
	}
}

func show() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := connect()
	if err != nil {
		return err
	}
	defer stop()

	// Each client is what a process has one of.
	var clients []*rlock.Client
	for range 3 {
		client, err := rlock.New(rlock.Config{Redis: options, Lease: lease})
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	redis, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	defer redis.Close()

	fmt.Printf("Redis is at %s, leases are %v\n", options.InitAddress[0], lease)
	var learnt []string
	for i, part := range []struct {
		title string
		play  func() (string, error)
	}{
		{"A lock", func() (string, error) { return single(ctx, clients[0], redis) }},
		{"A lock in a lock", func() (string, error) { return nested(ctx, clients[0]) }},
		{"Ten goroutines, three clients  (a bar is the time it was held, = is 10 ms)", func() (string, error) { return crowd(ctx, clients) }},
		{"A holder is killed", func() (string, error) { return killed(ctx, clients, options.InitAddress[0]) }},
	} {
		fmt.Printf("\n%d  %s\n", i+1, part.title)
		what, err := part.play()
		if err != nil {
			return fmt.Errorf("part %d: %w", i+1, err)
		}
		learnt = append(learnt, what)
	}

	fmt.Println("\nWhat you saw")
	for _, what := range learnt {
		fmt.Println("   ok  ", what)
	}
	return nil
}

var start = time.Now()

// say prints a line of the timeline.
func say(who, what string, args ...any) {
	fmt.Printf("%8.3f s   %-9s  %s\n", time.Since(start).Seconds(), who, fmt.Sprintf(what, args...))
}

// clientName names the i-th client in the timeline.
func clientName(i int) string { return fmt.Sprintf("client %c", 'A'+i) }

func single(ctx context.Context, c *rlock.Client, redis rueidis.Client) (string, error) {
	lock := c.NewLock("example:lock:orders:42")
	began := time.Now()
	if err := lock.Lock(ctx); err != nil {
		return "", err
	}
	took := time.Since(began)
	ttl, err := lock.TTL(ctx)
	if err != nil {
		return "", err
	}
	say(clientName(0), "holds %s, got in %v", lock.Name(), took.Round(time.Microsecond))

	hash, err := redis.Do(ctx, redis.B().Hgetall().Key(lock.Name()).Build()).AsStrMap()
	if err != nil {
		return "", err
	}
	for owner, count := range hash {
		say("Redis", "%s = %s, for %v unless renewed", owner, count, ttl)
	}

	if err := lock.Unlock(ctx); err != nil {
		return "", err
	}
	locked, err := lock.IsLocked(ctx)
	if err != nil {
		return "", err
	}
	if locked || len(hash) != 1 {
		return "", fmt.Errorf("held: %v, then locked: %v", hash, locked)
	}
	say(clientName(0), "unlocked it")
	return "a lock is one hash in Redis: its holder, and how often it is locked", nil
}

func nested(ctx context.Context, c *rlock.Client) (string, error) {
	lock := c.NewLock("example:lock:orders:42")
	var fastest time.Duration
	for level := 1; level <= 3; level++ {
		began := time.Now()
		if err := lock.Lock(ctx); err != nil {
			return "", err
		}
		took := time.Since(began)
		if level > 1 && (fastest == 0 || took < fastest) {
			fastest = took
		}
		say(clientName(0), "level %d took %v", level, took)
	}
	if held := lock.HoldCount(ctx); held != 3 {
		return "", fmt.Errorf("held %d times, not 3", held)
	}
	for range 3 {
		if err := lock.Unlock(ctx); err != nil {
			return "", err
		}
	}
	say(clientName(0), "unlocked it three times")
	return fmt.Sprintf("the holder locks it again in %v, without asking Redis", fastest), nil
}

func crowd(ctx context.Context, clients []*rlock.Client) (string, error) {
	const goroutines, work = 10, 40 * time.Millisecond
	var (
		group  sync.WaitGroup
		inside atomic.Int64 // how many believe that they hold the lock
		failed = make(chan error, goroutines)
		began  = time.Now()
		column = func() int { return int(time.Since(began) / (10 * time.Millisecond)) }
	)
	for g := range goroutines {
		group.Go(func() {
			which := g % len(clients)
			lock := clients[which].NewLock("example:door")
			err := lock.Do(ctx, func(context.Context) error {
				if inside.Add(1) != 1 {
					return fmt.Errorf("goroutine %d was not alone", g)
				}
				defer inside.Add(-1)
				from := column()
				time.Sleep(work)
				say(clientName(which), "goroutine %d  %s%s", g, strings.Repeat(" ", from), strings.Repeat("=", max(column()-from, 1)))
				return nil
			})
			if err != nil {
				failed <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		return "", err
	default:
		return fmt.Sprintf("%d goroutines of %d clients, and never two at once", goroutines, len(clients)), nil
	}
}
