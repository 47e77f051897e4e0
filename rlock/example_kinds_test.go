package rlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/rlock"
)

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

// All parts or none, of several Redis.
func ExampleNewMultiLock() {
	orders, end := connect()
	defer end()
	stock, end := connect()
	defer end()
	ctx := context.Background()

	lock := rlock.NewMultiLock(orders.NewLock("lock:orders:42"), stock.NewLock("lock:stock:7"))
	err := lock.Do(ctx, func(ctx context.Context) error {
		fmt.Println(stock.NewLock("lock:stock:7").IsLocked(ctx))
		return nil
	})
	fmt.Println(lock.Name(), err)
	// Output:
	// true <nil>
	// lock:orders:42,lock:stock:7 <nil>
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
