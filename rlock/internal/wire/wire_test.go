package wire_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// open returns a client's Redis on the embedded server.
func open(t testing.TB) *wire.Redis { return openAt(t, redistest.Embedded(t)) }

func openAt(t testing.TB, server *redistest.Server) *wire.Redis {
	option := server.Options()
	option.DisableCache = true
	redis, err := wire.Open(wire.Options{Redis: option}, wire.NewID().Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	return redis
}

// reply returns Redis' answer to a Lua expression.
func reply(t testing.TB, redis *wire.Redis, expression string) rueidis.RedisResult {
	return redis.Client.Do(t.Context(), redis.Client.B().Eval().Script("return "+expression).Numkeys(0).Build())
}
