package wire_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The processor time of Redis for one lock, without a network and without waits: scripts and
// the commands that they call, from INFO commandstats. One goroutine sends the commands of
// several clients, so that their order is fixed.

// BenchmarkContendedTurn measures a critical section while eight clients want the lock: a
// release that grants it to the first in the queue, and the ticket of the next client.
func BenchmarkContendedTurn(b *testing.B) {
	c := newContention(b, redistest.Standalone(b), wire.Plain, 8)
	holder := c.ids[0].Owner(0)
	require.NoError(b, c.redis.Do(b.Context(), wire.Acquire.Call(2, c.keys.Key, c.keys.Queue(), "30000", holder)).NonRedisError())
	var queue []string
	join := func(client int) {
		ticket := c.ids[client].Owner(uint64(client))
		c.step(b, &wire.Exchange{Cmd: core.Command{Op: core.Join}, Kind: wire.Plain, Keys: &c.keys, Text: wire.OwnerText(ticket)})
		queue = append(queue, ticket)
	}
	for client := 1; client < len(c.ids); client++ {
		join(client)
	}
	at := 0
	c.measure(b, func() {
		c.step(b, leave(&c.keys, holder))
		holder, queue = queue[0], queue[1:]
		join(at)
		at = (at + 1) % len(c.ids)
	})
}

// A contention is a lock for which clients wait, all over one connection.
type contention struct {
	redis *wire.Redis
	keys  wire.Keys
	ids   []*wire.ID
}

func newContention(b testing.TB, server *redistest.Server, kind *wire.Kind, clients int) *contention {
	c := &contention{}
	for range clients {
		c.ids = append(c.ids, wire.NewID())
	}
	c.redis = openWith(b, server, c.ids[0], func(*wire.Options) {})
	c.keys = keysOf(b, c.redis, "lock", kind.Layout)
	var channels []string
	for _, id := range c.ids { // a client that is not subscribed is dropped
		channels = append(channels, c.keys.GrantChannels()+id.Prefix)
	}
	listening := make(chan struct{}, clients)
	ctx := rueidis.WithOnSubscriptionHook(b.Context(), func(rueidis.PubSubSubscription) { listening <- struct{}{} })
	go func() {
		_ = c.redis.Client.Receive(ctx, c.redis.Client.B().Subscribe().Channel(channels...).Build(), func(rueidis.PubSubMessage) {})
	}()
	for range clients {
		<-listening
	}
	return c
}

func (c *contention) step(b *testing.B, x *wire.Exchange) {
	require.NoError(b, c.redis.Do(b.Context(), c.redis.CallOf(x)).Error())
}

func (c *contention) measure(b *testing.B, turn func()) {
	before := c.served(b)
	for b.Loop() {
		turn()
	}
	b.ReportMetric(float64((c.served(b)-before).Nanoseconds())/1e3/float64(b.N), "redis-µs/op")
}

// served returns how long Redis has executed scripts.
func (c *contention) served(b *testing.B) time.Duration {
	text, err := c.redis.Client.Do(context.Background(), c.redis.Client.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(b, err)
	for line := range strings.Lines(text) {
		var calls, micros int64
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			_, err = fmt.Sscanf(rest, "calls=%d,usec=%d", &calls, &micros)
			require.NoError(b, err)
			return time.Duration(micros) * time.Microsecond
		}
	}
	return 0
}
