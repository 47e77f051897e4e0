package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

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
