package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
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

func ExampleClient_NewFencedLock() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewFencedLock("lock:orders:42")

	for range 3 {
		err := lock.Do(ctx, func(ctx context.Context) error {
			token, err := lock.Token(ctx)
			fmt.Println("token", token) // one for each section, each larger than all before
			return err
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err := lock.Token(ctx)
	fmt.Println(errors.Is(err, rlock.ErrNotHeld))
	// Output:
	// token 1
	// token 2
	// token 3
	// true
}
