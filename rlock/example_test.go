package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/rlock"
)

// embedded starts a Redis inside this process, and returns how to connect with it
// in place of rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}.
func embedded() (option rueidis.ClientOption, stop func()) {
	server := inmemory.New()
	return server.Options(), server.Close
}

// connect returns a client of a Redis of its own, and the function that closes both.
func connect() (client *rlock.Client, end func()) {
	option, stop := embedded()
	client, err := rlock.New(rlock.Config{Redis: option})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		stop()
	}
}

func ExampleNew() {
	redis, stop := embedded() // or rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}
	defer stop()

	client, err := rlock.New(rlock.Config{
		Redis: redis,
		Lease: 10 * time.Second, // how long others wait if this process dies
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	fmt.Println(client.NewLock("lock:orders:42").Name())

	_, err = rlock.New(rlock.Config{})
	fmt.Println(errors.Is(err, rlock.ErrInvalidConfig))
	// Output:
	// lock:orders:42
	// true
}

func ExampleClient_NewReadWriteLock() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	lock := client.NewReadWriteLock("prices")
	reading, _ := lock.Read().Acquire(ctx)
	alsoReading, _ := lock.Read().Acquire(ctx)
	writing, err := lock.Write().Acquire(ctx, rlock.WithWait(0))
	fmt.Println(writing != nil, errors.Is(err, rlock.ErrNotAcquired))
	_ = reading.Release(ctx)
	_ = alsoReading.Release(ctx)

	// A writer may read on, and let others read.
	_ = lock.Write().Lock(ctx)
	_ = lock.Read().Lock(ctx)
	_ = lock.Write().Unlock(ctx)
	fmt.Println(lock.Write().IsHeld(ctx), lock.Read().IsHeld(ctx))

	// But a reader cannot become a writer.
	fmt.Println(errors.Is(lock.Write().Lock(ctx), rlock.ErrUpgrade))
	_ = lock.Read().Unlock(ctx)
	// Output:
	// false true
	// false true
	// true
}

func ExampleClient_NewLock() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	// Two Locks of one name are the same lock: there is nothing to keep or to share.
	_ = client.NewLock("lock:orders:42").Lock(ctx)
	fmt.Println(client.NewLock("lock:orders:42").HoldCount(ctx))
	fmt.Println(client.NewLock("lock:orders:42").Unlock(ctx))
	// Output:
	// 1
	// <nil>
}

func ExampleClient_NewFairLock() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	// All processes get the lock in the order in which they asked for it.
	lock := client.NewFairLock("tickets:42")
	err := lock.Do(ctx, func(context.Context) error {
		fmt.Println("mine")
		return nil
	})
	fmt.Println(err)
	// Output:
	// mine
	// <nil>
}

func ExampleClient_Close() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	lock := client.NewLock("lock:orders:42")
	hold, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close()) // held locks are released
	<-hold.Context().Done()
	fmt.Println(errors.Is(context.Cause(hold.Context()), rlock.ErrClosed))
	fmt.Println(errors.Is(lock.Lock(ctx), rlock.ErrClosed))
	// Output:
	// <nil>
	// true
	// true
}

func ExampleLock_Lock() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	stock := 0
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			if err := lock.Lock(ctx); err != nil {
				fmt.Println(err)
				return
			}
			stock++
			if err := lock.Unlock(ctx); err != nil { // ErrLost: another holder may have run at the same time
				fmt.Println(err)
			}
		})
	}
	workers.Wait()
	fmt.Println(stock)
	// Output: 10
}

// The owner may lock again, and must unlock as often.
func ExampleLock_Lock_nested() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	_ = lock.Lock(ctx)
	_ = lock.Lock(ctx)
	fmt.Println(lock.HoldCount(ctx))
	_ = lock.Unlock(ctx)
	fmt.Println(lock.IsHeld(ctx))
	_ = lock.Unlock(ctx)
	fmt.Println(lock.IsHeld(ctx))
	fmt.Println(errors.Is(lock.Unlock(ctx), rlock.ErrNotHeld))
	// Output:
	// 2
	// true
	// false
	// true
}

func ExampleLock_LockFor() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("report:today")

	// No watchdog: after an hour the lock is free, even if its holder still runs.
	if err := lock.LockFor(ctx, time.Hour); err != nil {
		fmt.Println(err)
		return
	}
	ttl, _ := lock.TTL(ctx)
	fmt.Println(ttl.Round(time.Hour))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// 1h0m0s
	// <nil>
}

func ExampleLock_TryLock() {
	client, end := connect()
	defer end()
	lock := client.NewLock("lock:orders:42")
	alice := rlock.WithOwner(context.Background(), rlock.NewOwner())
	bob := rlock.WithOwner(context.Background(), rlock.NewOwner())

	fmt.Println(lock.TryLock(alice))
	fmt.Println(lock.TryLock(bob))
	fmt.Println(lock.Unlock(alice))
	fmt.Println(lock.TryLock(bob))
	// Output:
	// true <nil>
	// false <nil>
	// <nil>
	// true <nil>
}

func ExampleLock_TryLockFor() {
	client, end := connect()
	defer end()
	lock := client.NewLock("lock:orders:42")
	alice := rlock.WithOwner(context.Background(), rlock.NewOwner())
	bob := rlock.WithOwner(context.Background(), rlock.NewOwner())

	// Wait for at most a second, and then hold it for a minute at most.
	fmt.Println(lock.TryLockFor(alice, time.Second, time.Minute))
	fmt.Println(lock.TryLockFor(bob, 10*time.Millisecond, 0))
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleLock_Acquire() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	hold, err := lock.Acquire(ctx, rlock.WithLease(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	// Any goroutine that has the handle may release it.
	released := make(chan error)
	go func() { released <- hold.Release(ctx) }()
	fmt.Println(<-released)
	fmt.Println(hold.Valid())
	// Output:
	// <nil>
	// false
}

func ExampleLock_Acquire_attempt() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	hold, err := lock.Acquire(ctx, rlock.WithWait(0))
	fmt.Println(hold.Valid(), err)

	// A hold belongs to its handle: the same goroutine has to wait, too.
	_, err = lock.Acquire(ctx, rlock.WithWait(0))
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	fmt.Println(hold.Release(ctx))
	// Output:
	// true <nil>
	// true
	// <nil>
}

func ExampleLock_Do() {
	client, end := connect()
	defer end()
	lock := client.NewLock("lock:orders:42")

	err := lock.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("held:", lock.IsHeld(ctx)) // give ctx to all code that needs the lock
		return errors.New("out of stock")
	})
	fmt.Println(err)
	fmt.Println("held:", lock.IsHeld(context.Background()))
	// Output:
	// held: true
	// out of stock
	// held: false
}

func ExampleLock_ForceUnlock() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	_ = lock.Lock(ctx)
	fmt.Println(lock.ForceUnlock(ctx)) // by an operator, say
	fmt.Println(lock.IsHeld(ctx))
	fmt.Println(errors.Is(lock.Unlock(ctx), rlock.ErrLost))
	// Output:
	// true <nil>
	// false
	// true
}

// A lock can be lost: to an operator, a failover, or an outage longer than the lease. The
// hold ends before Redis can grant the lock to another client.
func ExampleHold_Context_end() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	hold, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _, _ = lock.ForceUnlock(ctx) }()

	select {
	case <-hold.Context().Done():
		fmt.Println("stop:", errors.Is(context.Cause(hold.Context()), rlock.ErrLost))
	case <-time.After(time.Hour):
		fmt.Println("the work is done")
	}
	fmt.Println(errors.Is(hold.Release(ctx), rlock.ErrLost))
	// Output:
	// stop: true
	// true
}

// By default the goroutine is the owner. With an owner in the context, calls in several
// goroutines nest.
func ExampleWithOwner() {
	client, end := connect()
	defer end()
	lock := client.NewLock("lock:orders:42")

	ctx := rlock.WithOwner(context.Background(), rlock.NewOwner())
	_ = lock.Lock(ctx)
	var tree sync.WaitGroup
	for range 3 {
		tree.Go(func() {
			if err := lock.Lock(ctx); err != nil { // at once: the owner is the same
				fmt.Println(err)
				return
			}
			if err := lock.Unlock(ctx); err != nil {
				fmt.Println(err)
			}
		})
	}
	tree.Wait()
	fmt.Println(lock.HoldCount(ctx))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// 1
	// <nil>
}

// All parts or none, of several Redis.
func ExampleNewMultiLock() {
	orders, end := connect()
	defer end()
	stock, end := connect()
	defer end()
	ctx := context.Background()

	lock := rlock.NewMultiLock(orders.NewLock("lock:orders:42"), stock.NewLock("rwClient:7"))
	err := lock.Do(ctx, func(ctx context.Context) error {
		fmt.Println(stock.NewLock("rwClient:7").IsLocked(ctx))
		return nil
	})
	fmt.Println(lock.Name(), err)
	// Output:
	// true <nil>
	// lock:orders:42,rwClient:7 <nil>
}

// Over three independent Redis servers. One of them may fail.
func ExampleNewRedLock() {
	var clients []*rlock.Client
	for range 3 {
		client, end := connect()
		defer end()
		clients = append(clients, client)
	}
	ctx := context.Background()
	_ = clients[1].Close()

	lock := rlock.NewRedLock(clients, "lock:orders:42")
	err := lock.Do(ctx, func(ctx context.Context) error {
		fmt.Println(lock.IsHeld(ctx))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleClient_NewSemaphore() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	// Two connections to the partner may be open at once, over all processes.
	connections := client.NewSemaphore("partner", 2)
	for range 3 {
		_, err := connections.Acquire(ctx, rlock.WithWait(0))
		fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	}
	// Output:
	// false
	// false
	// true
}

func ExampleHold_Detach() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	// A report is due once per hour. The replica that takes the lock keeps it for the hour,
	// even if it is stopped meanwhile.
	hold, err := client.NewLock("report:2026-11-22T10").Acquire(ctx, rlock.WithWait(0), rlock.WithLease(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the report is made")
	fmt.Println(hold.Detach(ctx))
	_, err = client.NewLock("report:2026-11-22T10").Acquire(ctx, rlock.WithWait(0))
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	// Output:
	// the report is made
	// <nil>
	// true
}

func ExampleHold_With() {
	client, end := connect()
	defer end()
	hold, err := client.NewLock("leader").Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	// A request that runs under the lock ends with the request, and with the hold.
	request, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	ctx := hold.With(request)
	fmt.Println(ctx.Err())
	_ = hold.Release(ctx)
	<-ctx.Done()
	fmt.Println(errors.Is(context.Cause(ctx), rlock.ErrNotHeld))
	// Output:
	// <nil>
	// true
}
