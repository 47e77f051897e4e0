package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The steps that are nearly all where clients wait end in swift.lua: whatever keeps them from that costs Redis time, and changes
// nothing that the comparison with the model could tell.
func TestTheCommonStepsTakeTheShortWay(t *testing.T) {
	swift, plain := strings.Join(linesOf(t, "swift"), "\n"), wire.PlainStep.Text()
	require.Contains(t, plain, swift)
	short := wire.WithText(strings.Replace(plain, swift, swift+"if true then return redis.error_reply('the long way') end\n", 1))
	server := redistest.Standalone(t)
	for name, test := range map[string]struct {
		kind   *wire.Kind
		tokens uint64
	}{"plain": {wire.Plain, 0}, "fenced": {wire.Fenced, 1}} {
		t.Run(name, func(t *testing.T) {
			c := newContention(t, server, test.kind, 4)
			require.NoError(t, c.redis.Client.Do(t.Context(), c.redis.Client.B().Flushall().Build()).Error())
			do := func(op core.Op, text, joins string, on *wire.Script) {
				t.Helper()
				x := &wire.Exchange{Cmd: core.Command{Op: op, Lease: core.Span(30 * time.Second), Tokens: test.tokens}, Kind: test.kind, Keys: &c.keys, Text: text, Joins: joins}
				call := c.redis.CallOf(x)
				if on != nil {
					call.Script = on
				}
				answer := c.redis.Read(x, c.redis.Do(t.Context(), call))
				assert.NoError(t, answer.Err)
				assert.Equal(t, op == core.Leave, answer.Left)
			}
			first, second, third, fourth, again := c.ids[0].Owner(1), c.ids[1].Owner(1), c.ids[2].Owner(1), c.ids[3].Owner(1), c.ids[1].Owner(2)
			do(core.Acquire, first, "", nil)
			do(core.Join, second, "", nil) // behind nobody
			do(core.Join, third, "", short)
			do(core.Leave, first, "", short)
			do(core.Leave, second, again, short) // which has a mark in the queue
			do(core.Join, fourth, "", short)
			do(core.Leave, third, "", short)
			do(core.Leave, again, "", short)
		})
	}
}
