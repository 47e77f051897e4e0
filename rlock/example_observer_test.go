package rlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-rlock/rlock/rlock"
)

func ExampleObserver() {
	redis, stop := embedded() // or rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}
	defer stop()

	client, err := rlock.New(rlock.Config{
		Redis: redis,
		Observer: &rlock.Observer{
			Acquired: func(_ context.Context, i rlock.AcquiredInfo) {
				fmt.Println("acquired", i.Name, "by", i.AcquiredBy)
			},
			GaveUp: func(_ context.Context, i rlock.GaveUpInfo) {
				fmt.Println("gave up", i.Name, errors.Is(i.Err, rlock.ErrNotAcquired))
			},
			Released: func(_ context.Context, i rlock.ReleasedInfo) {
				fmt.Println("released", i.Name, i.Held > 0, i.Err)
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx := context.Background()
	lock := client.NewLock("lock:orders:42")
	_ = lock.Lock(ctx)
	_ = lock.Lock(ctx)
	_, _ = lock.TryLock(rlock.WithOwner(ctx, rlock.NewOwner()))
	_ = lock.Unlock(ctx)
	_ = lock.Unlock(ctx)
	// Output:
	// acquired lock:orders:42 by redis
	// acquired lock:orders:42 by nesting
	// gave up lock:orders:42 true
	// released lock:orders:42 true <nil>
	// released lock:orders:42 true <nil>
}
