package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A ticket that was granted the lock keeps it by a look, though the message and the queue are
// lost.
func TestALookIsNotRefusedByAFullServer(t *testing.T) {
	s := redistest.Standalone(t, "--maxmemory-policy", "noeviction")
	id := wire.NewID()
	redis, err := wire.Open(wire.Options{Redis: s.Options()}, id.Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	do := func(args ...string) {
		require.NoError(t, redis.Client.Do(t.Context(), redis.Client.B().Arbitrary(args...).Build()).Error())
	}
	for name, test := range map[string]struct {
		kind *wire.Kind
		cmd  core.Command
	}{
		"fenced":    {wire.Fenced, core.Command{Tokens: 1}},
		"read":      {wire.ReadWrite, core.Command{Ticket: core.Ticket{Mode: core.Shared}}},
		"semaphore": {wire.Semaphore, core.Command{Permits: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := redis.KeysOf(name, wire.Layout{Channel: "redisson_lock__channel:", Extra: "more:", HasExtra: name != "semaphore"}, "")
			require.NoError(t, err)
			text := id.Owner(1)
			step := func(op core.Op) core.Found {
				x := &wire.Exchange{Cmd: test.cmd, Kind: test.kind, Keys: &keys, Text: text}
				x.Cmd.Op, x.Cmd.Lease = op, core.Span(time.Minute)
				answer := carry(t, redis, x)
				require.NoError(t, answer.Err)
				return answer.Found
			}
			require.Equal(t, core.Holds, step(core.Join))
			do("DEL", keys.Queue())
			do("CONFIG", "SET", "maxmemory", "1")
			defer do("CONFIG", "SET", "maxmemory", "0")
			assert.Equal(t, core.Holds, step(core.Look))
			left, err := redis.Client.Do(t.Context(), redis.Client.B().Pttl().Key(keys.Key).Build()).ToInt64()
			require.NoError(t, err)
			assert.Greater(t, left, int64(50_000), "for the whole lease")
		})
	}
}
