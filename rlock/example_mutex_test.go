package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

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
