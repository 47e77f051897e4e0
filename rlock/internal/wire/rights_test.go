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

// A user without the right to count gets an error, and no ticket joins.
func TestATicketWithABoundNeedsTheRightToCount(t *testing.T) {
	s := redistest.Standalone(t)
	all, holder := openAt(t, s), wire.NewID().Owner(1)
	keys := keysOf(t, all, "lock", wire.Plain.Layout)
	require.NoError(t, do(t, all, "HSET", keys.Key, holder, "1").Error())
	require.NoError(t, do(t, all, "ACL", "SETUSER", "poor", "reset", "on", ">secret", "~*", "&*", "+@all", "-zcount").Error())
	poor := openWith(t, s, wire.NewID(), func(o *wire.Options) { o.Redis.Username, o.Redis.Password = "poor", "secret" })
	join := func(cmd core.Command, counts bool) wire.Answer {
		cmd.Op, cmd.Lease = core.Join, core.Span(time.Minute)
		return carry(t, poor, &wire.Exchange{Cmd: cmd, Kind: wire.Plain, Keys: &keys, Counts: counts, Text: wire.NewID().Owner(1)})
	}
	require.ErrorIs(t, wire.Explain(join(core.Command{Bound: core.Bound{Bounded: true, Most: 5}}, false).Err), wire.ErrNoPermission)
	there, err := do(t, all, "EXISTS", keys.Queue()).AsInt64()
	require.NoError(t, err)
	assert.Zero(t, there)
	for _, counts := range []bool{false, true} {
		answer := join(core.Command{}, counts)
		require.NoError(t, answer.Err, "others do not need it")
		assert.Equal(t, holder, answer.Owner)
		assert.Zero(t, answer.Tickets, "nor does it learn how many there are")
		assert.NotEqual(t, core.Nowhere, answer.Found)
	}
}
