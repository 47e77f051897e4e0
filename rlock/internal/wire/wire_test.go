package wire_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
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

// leave returns the release of an owner of a plain lock.
func leave(keys *wire.Keys, owner string) *wire.Exchange {
	return &wire.Exchange{Cmd: core.Command{Op: core.Leave}, Kind: wire.Plain, Keys: keys, Text: owner}
}

// carry makes the call of a command, whose foreign clients do not poll.
func carry(t testing.TB, redis *wire.Redis, x *wire.Exchange) wire.Answer {
	return redis.Read(x, redis.Do(t.Context(), redis.CallOf(x)))
}

// reply returns Redis' answer to a Lua expression.
func reply(t testing.TB, redis *wire.Redis, expression string) rueidis.RedisResult {
	return redis.Client.Do(t.Context(), redis.Client.B().Eval().Script("return "+expression).Numkeys(0).Build())
}
