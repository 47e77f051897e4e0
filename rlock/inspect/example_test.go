package inspect_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// connect returns a client of a Redis inside this process, and the function that closes both.
func connect() (client *rlock.Client, end func()) {
	server := inmemory.New()
	client, err := rlock.New(rlock.Config{Redis: server.Options()})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		server.Close()
	}
}

func ExampleInspector_Lock() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	hold, err := client.NewLock("lock:orders:42").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Release(ctx)

	i, err := inspect.Of(client).Lock(ctx, "lock:orders:42") // from any process
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, holder := range i.Holders {
		ours := strings.HasPrefix(holder.Owner, inspect.Of(client).ID()) // holder.Process has host and pid
		fmt.Printf("%s %q: held %d deep, by this client: %t, %d wait\n", i.Kind, i.Name, holder.Count, ours, i.Waiting)
	}
	// Output:
	// lock "lock:orders:42": held 1 deep, by this client: true, 0 wait
}

func ExampleInspector_Held() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	_ = client.NewLock("lock:orders:42").Lock(ctx)
	for _, h := range inspect.Of(client).Held() {
		fmt.Println(h.Kind, h.Name, h.Depth)
	}
	// Output: plain lock:orders:42 1
}
