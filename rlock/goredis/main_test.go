package goredis_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// lockWith takes locks with the options, and checks that the client of go-redis sees them, where it looks for its own keys.
func lockWith(t *testing.T, options any, rdb redis.UniversalClient) {
	t.Helper()
	redistest.Guard(t)
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
	defer cancel()
	option, err := from(options)
	require.NoError(t, err)
	client, err := rlock.New(rlock.Config{Redis: option, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	for _, name := range []string{"a", "b", "c", "d"} { // on several nodes of a Cluster
		require.NoError(t, client.NewLock(name).Do(ctx, func(ctx context.Context) error {
			seen, err := rdb.Exists(ctx, name).Result()
			assert.EqualValues(t, 1, seen, "go-redis sees the lock")
			return err
		}))
	}
}

// live returns a client of go-redis that ends with the test.
func live[C redis.UniversalClient](t *testing.T, client C) C {
	t.Cleanup(func() { _ = client.Close() })
	return client
}
