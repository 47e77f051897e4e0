package pubsub_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
)

func subscribeAll(b *testing.B, hub *pubsub.Hub, n int) []*waiter {
	subs := make([]*waiter, n)
	for i := range subs {
		subs[i] = wait(hub, fmt.Sprint("c", i))
	}
	for _, s := range subs {
		awaitWake(b, s)
	}
	return subs
}

// BenchmarkMessageToMark measures the time from the begin of a PUBLISH, sent over another
// connection, to the wake. Its allocations must not depend on the number of channels.
func BenchmarkMessageToMark(b *testing.B) {
	for _, channels := range []int{1, 10_000} {
		b.Run(fmt.Sprint("channels=", channels), func(b *testing.B) {
			redis := redistest.Standalone(b)
			hub, client := newHub(b, redis.Options(), pubsub.Config{})
			s := subscribeAll(b, hub, channels)[0]
			b.ReportAllocs()
			for b.Loop() {
				publish := client.B().Publish().Channel("c0").Message("0").Build()
				if err := client.Do(b.Context(), publish).Error(); err != nil {
					b.Fatal(err)
				}
				<-s.heard
			}
		})
	}
}

// BenchmarkConfirm10000Channels measures the time from the first Subscribe until all channels are
// confirmed, on a hub without a connection.
func BenchmarkConfirm10000Channels(b *testing.B) {
	redis := redistest.Standalone(b)
	client, err := rueidis.NewClient(redis.Options())
	require.NoError(b, err)
	defer client.Close()
	for b.Loop() {
		hub := pubsub.New(pubsub.Config{Client: client})
		subscribeAll(b, hub, 10_000)
		hub.Close()
	}
}

// BenchmarkSubscribeClose measures a waiter that comes and goes while the channel is confirmed: no
// command is sent.
func BenchmarkSubscribeClose(b *testing.B) {
	redis := redistest.Standalone(b)
	hub, _ := newHub(b, redis.Options(), pubsub.Config{})
	subscribeAll(b, hub, 1)
	b.ReportAllocs()
	for b.Loop() {
		wait(hub, "c0").Close()
	}
}
