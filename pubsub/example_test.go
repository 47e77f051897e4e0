package pubsub_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/pubsub"
)

// exampleClient returns a client of an embedded server, so that the examples need no other. A real
// program connects to its own.
func exampleClient() (client rueidis.Client, closeAll func()) {
	redis := miniredis.NewMiniRedis()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return redis.Dial() },
	})
	if err != nil {
		panic(err)
	}
	return client, func() { client.Close(); redis.Close() }
}

func Example() {
	client, closeClient := exampleClient()
	defer closeClient()
	hub := pubsub.New(pubsub.Config{Client: client})
	defer hub.Close()
	ctx := context.Background()

	// A producer sets a value, then publishes the change.
	go func() {
		client.Do(ctx, client.B().Set().Key("door").Value("open").Build())
		client.Do(ctx, client.B().Publish().Channel("door:changed").Message("").Build())
	}()

	// A waiter looks after every wake and every message. Both are hints: it has a fallback.
	changed := make(chan struct{}, 1)
	s := hub.Listen("door:changed", func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer s.Close()
	for {
		if door, _ := client.Do(ctx, client.B().Get().Key("door").Build()).ToString(); door != "" {
			fmt.Println("the door is", door)
			return
		}
		select {
		case <-s.C():
		case <-changed:
		case <-time.After(5 * time.Second):
		}
	}
	// Output: the door is open
}
