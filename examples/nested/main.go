// Nested is a service whose methods lock the order that they work on, and call
// each other: place locks it, and calls reserve, which locks it, and calls
// charge, which locks it once more. Each can be called on its own as well, and
// none has to know whether its caller has the lock already:
//
//		go run ./examples/nested
//
//	  - The goroutine is the owner by default. A holder acquires the lock again at
//	    once, without Redis, and the lock is free after the outermost Unlock.
//	  - An owner in the context nests across goroutines: the steps of one order run
//	    side by side, each locks the order, and none waits for its own caller.
//	  - Another goroutine, or another owner, stays out all the while.
//
// Look at the number of levels. A lock that is not reentrant would wait for
// itself at level 2, for ever.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/examples/internal/embedded"
	"github.com/go-rlock/rlock/rlock"
)

// orders is the service.
type orders struct{ locks *rlock.Client }

func (o orders) lock(id string) *rlock.Lock { return o.locks.NewLock("example:order:" + id) }

// place is level 1.
func (o orders) place(ctx context.Context, id string) error {
	return o.lock(id).Do(ctx, func(ctx context.Context) error {
		o.show(ctx, "place", id)
		return o.reserve(ctx, id)
	})
}

// reserve is level 2 when place calls it.
func (o orders) reserve(ctx context.Context, id string) error {
	return o.lock(id).Do(ctx, func(ctx context.Context) error {
		o.show(ctx, "reserve", id)
		return o.charge(ctx, id)
	})
}

// charge is level 3 when reserve calls it.
func (o orders) charge(ctx context.Context, id string) error {
	return o.lock(id).Do(ctx, func(ctx context.Context) error {
		o.show(ctx, "charge", id)
		return o.checkClosed(id)
	})
}

// show prints how deep the caller is.
func (o orders) show(ctx context.Context, method, id string) {
	depth := o.lock(id).HoldCount(ctx)
	fmt.Printf("   %s%s(%s) holds the lock %d times\n", strings.Repeat("   ", depth-1), method, id, depth)
}

// placeAll locks an order, and leaves its parts to other goroutines, in whose context the
// owner travels on. The lock does not keep them apart from each other: they are one owner,
// and their work must be fit to go on side by side.
func (o orders) placeAll(ctx context.Context, id string) error {
	return o.lock(id).Do(ctx, func(ctx context.Context) error {
		o.show(ctx, "placeAll", id)
		var group sync.WaitGroup
		errs := make([]error, 2)
		for i, part := range []string{"pack", "invoice"} {
			group.Go(func() { errs[i] = o.do(ctx, part, id) })
		}
		group.Wait()
		return errors.Join(append(errs, o.checkClosed(id))...)
	})
}

// do is a part of an order, in a goroutine of its own.
func (o orders) do(ctx context.Context, part, id string) error {
	return o.lock(id).Do(ctx, func(context.Context) error {
		fmt.Printf("      %s(%s) has locked it too, in another goroutine\n", part, id)
		return nil
	})
}

// checkClosed tries the lock as a stranger: in a goroutine with a fresh context, which
// carries no owner.
func (o orders) checkClosed(id string) error {
	tried := make(chan error)
	go func() {
		locked, err := o.lock(id).TryLock(context.Background())
		if locked {
			err = errors.New("a stranger got into a locked order")
		}
		tried <- err
	}()
	err := <-tried
	if err == nil {
		fmt.Println("   a stranger tries the lock, and does not get it")
	}
	return err
}

// checkFree makes sure that the last unlock has freed the lock.
func (o orders) checkFree(ctx context.Context, id string) error {
	locked, err := o.lock(id).IsLocked(ctx)
	if locked {
		err = fmt.Errorf("order %s is still locked", id)
	}
	if err == nil {
		fmt.Println("   all have returned, and the lock is free")
	}
	return err
}

func main() { embedded.Main("nested", run) }

func run(ctx context.Context, options rueidis.ClientOption) error {
	client, err := rlock.New(rlock.Config{Redis: options})
	if err != nil {
		return err
	}
	defer client.Close()
	service := orders{client}

	fmt.Println("One goroutine, three methods")
	if err := service.place(ctx, "42"); err != nil {
		return err
	}
	if err := service.checkFree(ctx, "42"); err != nil {
		return err
	}

	fmt.Println("\nOne owner, three goroutines")
	if err := service.placeAll(rlock.WithOwner(ctx, rlock.NewOwner()), "43"); err != nil {
		return err
	}
	return service.checkFree(ctx, "43")
}
