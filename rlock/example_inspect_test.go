package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-rlock/rlock/rlock"
)

func ExampleClient_Inspect() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	hold, err := client.NewLock("lock:orders:42").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Release(ctx)

	i, err := client.Inspect(ctx, "lock:orders:42") // from any process
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, holder := range i.Holders {
		ours := strings.HasPrefix(holder.Owner, client.ID()) // holder.Process has host and pid
		fmt.Printf("%s %q: held %d deep, by this client: %t, %d wait\n", i.Kind, i.Name, holder.Count, ours, i.Waiting)
	}
	// Output:
	// lock "lock:orders:42": held 1 deep, by this client: true, 0 wait
}

func ExampleClient_Locks() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	for _, lock := range []*rlock.Lock{client.NewLock("lock:orders:42"), client.NewLock("users:7")} {
		if _, err := lock.Acquire(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	for name, err := range client.Locks(ctx, "lock:orders:*") {
		fmt.Println(name, err)
	}
	// Output:
	// lock:orders:42 <nil>
}

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

func ExampleClient_Stats() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	lock := client.NewLock("lock:orders:42")
	_ = lock.Lock(ctx)
	_ = lock.Lock(ctx)
	_, _ = lock.TryLock(rlock.WithOwner(ctx, rlock.NewOwner()))

	stats := client.Stats()
	fmt.Println(stats.Held, stats.AcquiredByRedis, stats.AcquiredByNesting, stats.Denied)
	// Output: 1 1 1 1
}

func ExampleClient_Held() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	_ = client.NewLock("lock:orders:42").Lock(ctx)
	for _, h := range client.Held() {
		fmt.Println(h.Kind, h.Name, h.Depth)
	}
	// Output: plain lock:orders:42 1
}
