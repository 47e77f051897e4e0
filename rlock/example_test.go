package rlock_test

// The examples are in the order of a user's day: connect, run a function alone, hold a lock for
// longer, write under it, pass it on, close. Those of the kinds follow.

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

// embedded starts a Redis inside this process, and returns how to connect with it in place of
// rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}.
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

func ExampleLock_Acquire() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")

	hold, err := lock.Acquire(ctx, rlock.WithWait(0), rlock.WithLease(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	// A hold belongs to its handle: the same goroutine has to wait, too.
	_, err = lock.Acquire(ctx, rlock.WithWait(0))
	fmt.Println(errors.Is(err, rlock.ErrNotAcquired))
	// Any goroutine that has the handle may release it.
	released := make(chan error)
	go func() { released <- hold.Release(ctx) }()
	fmt.Println(<-released)
	fmt.Println(hold.Valid())
	// Output:
	// true
	// <nil>
	// false
}

// A lock can be lost: to an operator, a failover, or an outage longer than the lease. The hold ends
// before Redis can grant the lock to another client.
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

// By default the goroutine is the owner. With an owner in the context, calls in several goroutines
// nest.
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

// Redis executes the write if this hold has the lock, and nothing if it has lost it.
func ExampleHold_Write() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")
	state := lock.Key("state")

	hold, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = hold.Write(ctx, []string{state}, []string{"SET", state, "paid"})
	fmt.Println(err)

	_, _ = lock.ForceUnlock(ctx)
	_, err = hold.Write(ctx, []string{state}, []string{"SET", state, "shipped"})
	fmt.Println(errors.Is(err, rlock.ErrFenced))
	fmt.Println(errors.Is(hold.Release(ctx), rlock.ErrLost))
	// Output:
	// <nil>
	// true
	// true
}

// A handler takes the lock, and a worker in another process goes on with it.
func ExampleHold_Pass() {
	handler, end := connect()
	defer end()
	worker := handler // a client of the same Redis, in another process
	ctx := context.Background()

	hold, err := handler.NewLock("lock:orders:42").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := hold.Pass(ctx, time.Minute) // to be sent with the job
	fmt.Println(err, hold.Valid())

	resumed, err := worker.Resume(ctx, text)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resumed.Valid())
	fmt.Println(resumed.Release(ctx))
	// Output:
	// <nil> false
	// true
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
