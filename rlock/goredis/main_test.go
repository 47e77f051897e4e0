package goredis_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// lockWith takes a lock and passes it on to a second client, both with the option, and checks that
// the client of go-redis sees the lock, where it looks for its own keys. It returns a client that
// still holds the lock "held".
func lockWith(t *testing.T, option rueidis.ClientOption, rdb redis.UniversalClient) *rlock.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
	defer cancel()
	here, there := clientWith(t, option), clientWith(t, option)

	hold, err := here.NewLock("passed").Acquire(ctx)
	require.NoError(t, err)
	if rdb != nil {
		seen, err := rdb.Exists(ctx, "passed").Result()
		require.NoError(t, err)
		assert.EqualValues(t, 1, seen, "go-redis sees the lock")
	}
	next := make(chan error, 1)
	go func() { next <- there.NewLock("passed").Do(ctx, func(context.Context) error { return nil }) }()
	require.Eventually(t, func() bool {
		info, err := inspect.Of(here).Lock(ctx, "passed")
		return err == nil && len(info.Queue) == 1
	}, redistest.Hang, time.Millisecond, "the other client waits")
	require.NoError(t, hold.Release(ctx))
	require.NoError(t, redistest.Await(t, next))

	_, err = here.NewLock("held").Acquire(ctx)
	require.NoError(t, err)
	return here
}

// clientWith returns a client with the option, which ends with the test.
func clientWith(t *testing.T, option rueidis.ClientOption) *rlock.Client {
	t.Helper()
	redistest.Guard(t)
	client, err := rlock.New(rlock.Config{Redis: option, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// live returns a client of go-redis that ends with the test.
func live[C redis.UniversalClient](t *testing.T, client C) C {
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// connections returns the lines of CLIENT LIST.
func connections(t *testing.T, s *redistest.Server) string {
	t.Helper()
	c := s.Client(t)
	list, err := c.Do(t.Context(), c.B().ClientList().Build()).ToString()
	require.NoError(t, err)
	return list
}
