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

// A step in which a ticket joins ends early if no grant is possible. Its answer is the same
// as that of a whole step.
func TestTheAnswerToATicketThatJoins(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		option := s.Options()
		option.DisableCache = true
		id := wire.NewID()
		redis, err := wire.Open(wire.Options{Redis: option}, id.Prefix)
		require.NoError(t, err)
		t.Cleanup(func() {
			redis.Stop()
			redis.Close()
		})
		do := func(args ...string) {
			require.NoError(t, redis.Client.Do(t.Context(), redis.Client.B().Arbitrary(args...).Build()).Error())
		}
		holder, before, ticket, behind := id.Owner(1), id.Owner(2), id.Owner(3), id.Owner(4)
		const guest = "0123abcd-0123-4123-8123-0123456789ab:1"

		for name, test := range map[string]struct {
			holder string
			joined []string // the tickets that joined before, in this order
			window bool     // a window for guests is the last in the queue
			owner  string
			found  core.Found
		}{
			"to a free lock":                   {"", nil, false, ticket, core.Holds},
			"to a lock that it has":            {ticket, nil, false, ticket, core.Holds},
			"to one that others wait for":      {ticket, []string{before}, false, ticket, core.Holds},
			"behind one without a client":      {"", []string{before}, false, ticket, core.Holds},
			"as the first":                     {holder, nil, false, holder, core.First},
			"behind another one":               {holder, []string{before}, false, holder, core.Waits},
			"again, as the first":              {holder, []string{ticket}, false, holder, core.First},
			"again, behind another one":        {holder, []string{before, ticket}, false, holder, core.Waits},
			"again, between two":               {holder, []string{before, ticket, behind}, false, holder, core.Waits},
			"behind a window for guests":       {holder, nil, true, holder, core.First},
			"as the first, and a guest has it": {guest, nil, false, guest, core.First},
			"behind another one, and a guest":  {guest, []string{before}, false, guest, core.Waits},
		} {
			t.Run(name, func(t *testing.T) {
				keys, err := redis.KeysOf(name, wire.Layout{Channel: "redisson_lock__channel:"}, "")
				require.NoError(t, err)
				if test.holder != "" {
					do("HSET", keys.Key, test.holder, "1")
					do("PEXPIRE", keys.Key, "60000")
				}
				for _, ticket := range test.joined {
					do("ZADD", keys.Queue(), "NX", "1", "x"+ticket)
				}
				if test.window {
					do("ZADD", keys.Queue(), "1", "?")
				}
				answer := carry(t, redis, &wire.Exchange{Cmd: core.Command{Op: core.Join, Lease: core.Span(time.Minute)}, Kind: wire.Plain, Keys: &keys, Text: ticket})
				require.NoError(t, answer.Err)
				assert.Equal(t, test.found, answer.Found)
				assert.Equal(t, test.owner, answer.Owner)
				if test.found != core.Holds {
					assert.Positive(t, answer.TTL, "the rest of the lease")
				}
				assert.Zero(t, answer.Window, "there is no window")
				assert.False(t, answer.HeldBack, "there is no reader")
				left, err := redis.Client.Do(t.Context(), redis.Client.B().Pttl().Key(keys.Queue()).Build()).ToInt64()
				require.NoError(t, err)
				assert.NotEqual(t, int64(-1), left, "the queue ends by itself")
			})
		}
	})
}
