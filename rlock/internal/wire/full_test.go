package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
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
		step   *wire.Script
		mode   string
		number string
		tokens uint64
	}{
		"fenced":    {wire.PlainStep, "x", "1", 1},
		"read":      {wire.ReadWriteStep, "s", "", 0},
		"semaphore": {wire.SemaphoreStep, "x", "1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := redis.KeysOf(name, wire.Layout{Channel: "redisson_lock__channel:", Extra: "more:", HasExtra: name != "semaphore"}, "")
			require.NoError(t, err)
			member := wire.Member{Mode: test.mode, Ticket: id.Owner(1)}
			step := func(s wire.Step) wire.Answer {
				s.Lease, s.Number = "60000", test.number
				answer, err := wire.ReadStep(redis.Do(t.Context(), redis.Step(test.step, &keys, s)), test.tokens)
				require.NoError(t, err)
				return answer
			}
			require.True(t, step(wire.Step{Join: member}).Granted)
			do("DEL", keys.Queue())
			do("CONFIG", "SET", "maxmemory", "1")
			defer do("CONFIG", "SET", "maxmemory", "0")
			assert.True(t, step(wire.Step{Look: member}).Granted)
			left, err := redis.Client.Do(t.Context(), redis.Client.B().Pttl().Key(keys.Key).Build()).ToInt64()
			require.NoError(t, err)
			assert.Greater(t, left, int64(50_000), "for the whole lease")
		})
	}
}
