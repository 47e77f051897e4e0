package goredis_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// goRedis returns a client of go-redis on the server of a test.
func goRedis(t *testing.T, server *rlocktest.Server) *redis.Client {
	data := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:0", // not dialled; of a name go-redis would ask the DNS
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Miniredis().Dial() },
	})
	t.Cleanup(func() { _ = data.Close() })
	return data
}

// A client of go-redis and one of rlock share the server of a test, in virtual time, in either
// order.
func TestGoRedisBesideTheTestKit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		data := goRedis(t, server)
		require.NoError(t, data.Set(t.Context(), "orders:42", "new", time.Hour).Err())
		err := server.Client().NewLock("lock:orders:42").Do(t.Context(), func(ctx context.Context) error {
			time.Sleep(time.Minute)
			require.EqualValues(t, 1, data.Exists(ctx, "lock:orders:42").Val())
			return data.Set(ctx, "orders:42", "shipped", 0).Err()
		}, rlock.WithWait(0))
		require.NoError(t, err)
		require.Equal(t, "shipped", data.Get(t.Context(), "orders:42").Val())
	})
}
