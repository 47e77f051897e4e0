package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The release of a tenure whose acquire is not settled is sent again until the lease would be over, and Close
// waits for it.
func TestACallWhoseContextHasEndedIsSettled(t *testing.T) {
	option := redistest.Embedded(t).Options()
	option.PipelineMultiplex, option.AlwaysPipelining, option.DisableCache = -1, true, true // as package rlock
	option.ConnWriteTimeout = time.Minute
	id := wire.NewID()
	redis, err := wire.Open(wire.Options{Redis: option}, id.Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	keys, err := redis.KeysOf("lock", wire.Layout{Channel: "redisson_lock__channel:"}, "")
	require.NoError(t, err)
	send := func(ctx context.Context) (err error, settled bool) {
		acquire := wire.Acquire.Call(2, keys.Key, keys.Queue(), "30000", id.Owner(1, false))
		result, sent := redis.Send(ctx, wire.Order{Call: acquire, Slot: keys.Slot, First: true, At: time.Now()})
		return result.NonRedisError(), redis.IsSettled(sent.Mark)
	}
	require.Eventually(t, func() bool { // it is alone for long enough to have a direct connection
		err, settled := send(t.Context())
		return err == nil && settled && redis.HasDirect()
	}, time.Minute, time.Millisecond)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	commands := redis.Commands()
	err, settled := send(over)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, commands, redis.Commands(), "it was sent")
	require.True(t, settled)
}

func TestCommandsHaveAnOrderOverOneConnectionOnly(t *testing.T) {
	server := redistest.Embedded(t)
	for _, c := range []struct {
		multiplex int
		shared    bool
		ordered   bool
	}{{-1, false, true}, {1, false, false}, {-1, true, false}} {
		option := server.Options()
		option.DisableCache, option.PipelineMultiplex = true, c.multiplex
		options := wire.Options{Redis: option}
		if c.shared {
			shared, err := rueidis.NewClient(option)
			require.NoError(t, err)
			t.Cleanup(shared.Close)
			options = wire.Options{Client: shared}
		}
		redis, err := wire.Open(options, wire.NewID().Prefix)
		require.NoError(t, err)
		require.NoError(t, redis.Client.Do(t.Context(), redis.Client.B().Ping().Build()).Error())
		require.Equal(t, c.ordered, redis.Ordered(), "%+v", c)
		mark := redis.Mark()
		require.Equal(t, c.ordered, redis.IsSettled(mark), "%+v", c)
		redis.Stop()
		redis.Close()
	}
}
