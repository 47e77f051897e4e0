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
	redis := openWith(t, s, id, func(*wire.Options) {})
	for name, test := range map[string]struct {
		kind *wire.Kind
		cmd  core.Command
	}{
		"fenced":    {wire.Fenced, core.Command{Tokens: 1}},
		"read":      {wire.ReadWrite, core.Command{Ticket: core.Ticket{Mode: core.Shared}}},
		"semaphore": {wire.Semaphore, core.Command{Permits: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			keys := keysOf(t, redis, name, test.kind.Layout)
			text := id.Owner(1)
			step := func(op core.Op) core.Found {
				x := &wire.Exchange{Cmd: test.cmd, Kind: test.kind, Keys: &keys, Text: text}
				x.Cmd.Op, x.Cmd.Lease = op, core.Span(time.Minute)
				answer := carry(t, redis, x)
				require.NoError(t, answer.Err)
				return answer.Found
			}
			require.Equal(t, core.Holds, step(core.Join))
			require.NoError(t, do(t, redis, "DEL", keys.Queue()).Error())
			require.NoError(t, do(t, redis, "CONFIG", "SET", "maxmemory", "1").Error())
			defer do(t, redis, "CONFIG", "SET", "maxmemory", "0")
			assert.Equal(t, core.Holds, step(core.Look))
			left, err := do(t, redis, "PTTL", keys.Key).AsInt64()
			require.NoError(t, err)
			assert.Greater(t, left, int64(50_000), "for the whole lease")
		})
	}
}
