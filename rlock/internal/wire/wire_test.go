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
	return openWith(t, server, wire.NewID(), func(*wire.Options) {})
}

func openWith(t testing.TB, server *redistest.Server, id *wire.ID, change func(*wire.Options)) *wire.Redis {
	options := wire.Options{Redis: server.Options()}
	change(&options)
	redis, err := wire.Open(options, id.Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	return redis
}

// do sends a command.
func do(t testing.TB, redis *wire.Redis, words ...string) rueidis.RedisResult {
	return redis.Client.Do(t.Context(), redis.Client.B().Arbitrary(words...).Build())
}

// keysOf returns the keys of a lock.
func keysOf(t testing.TB, redis *wire.Redis, name string, layout wire.Layout) wire.Keys {
	keys, err := redis.KeysOf(name, layout, "")
	require.NoError(t, err)
	return keys
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
