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

func ExampleHold_Token() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	lock := client.NewFencedLock("lock:orders:42")
	files := new(fileServer)

	first, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	files.write(first, "first")
	_, _ = lock.ForceUnlock(ctx) // in place of a pause that outlasts its lease

	second, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	files.write(second, "second")
	files.write(first, "first, late") // it has not checked whether it still holds the lock
	fmt.Println(second.Release(ctx))
	// Output:
	// written "first"
	// written "second"
	// refused "first, late"
	// <nil>
}

// A file server that gets the token with each write, and refuses stale ones: examples/fenced
// has one in SQL.
type fileServer struct{ token uint64 }

func (s *fileServer) write(hold *rlock.Hold, text string) {
	token, err := hold.Token()
	if err != nil || token < s.token {
		fmt.Printf("refused %q\n", text)
		return
	}
	s.token = token
	fmt.Printf("written %q\n", text)
}
