package wire_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A crowd is a lock that is held, and its queue.
type crowd struct {
	t      *testing.T
	redis  *wire.Redis
	keys   wire.Keys
	holder string
}

func newCrowd(t *testing.T, redis *wire.Redis, name string) *crowd {
	keys, err := redis.KeysOf(name, wire.Layout{Channel: "redisson_lock__channel:"}, "")
	require.NoError(t, err)
	c := &crowd{t, redis, keys, wire.NewID().Owner(1)}
	c.do("HSET", keys.Key, c.holder, "1")
	c.do("PEXPIRE", keys.Key, "60000")
	return c
}

func (c *crowd) do(args ...string) rueidis.RedisResult {
	c.t.Helper()
	result := c.redis.Client.Do(c.t.Context(), c.redis.Client.B().Arbitrary(args...).Build())
	require.NoError(c.t, result.Error())
	return result
}

// joins makes so many tickets of dead clients stand in the queue.
func (c *crowd) joins(tickets int) {
	c.t.Helper()
	for range tickets {
		c.do("ZADD", c.keys.Queue(), "NX", "9", "x"+ticket())
	}
}

// step makes a step of the ticket.
func (c *crowd) step(cmd core.Command, counts bool, ticket string) wire.Answer {
	cmd.Lease = core.Span(time.Minute)
	return carry(c.t, c.redis, &wire.Exchange{Cmd: cmd, Kind: wire.Plain, Keys: &c.keys, Counts: counts, Text: ticket})
}

// ticket returns a new ticket.
func ticket() string { return wire.NewID().Owner(1) }

// A step that counts says where the ticket stands, and how many wait. A window of foreign clients is no ticket.
func TestAStepThatCountsSaysWhereTheTicketStands(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		c := newCrowd(t, openAt(t, s), "lock")
		first, second, none := ticket(), ticket(), ticket()
		check := func(op core.Op, ticket string, found core.Found, before, tickets int) {
			t.Helper()
			answer := c.step(core.Command{Op: op}, true, ticket)
			require.NoError(t, answer.Err)
			assert.Equal(t, []any{found, before, tickets}, []any{answer.Found, answer.Before, answer.Tickets})
		}
		check(core.Join, first, core.First, 0, 1)
		c.joins(1)
		check(core.Join, second, core.Waits, 2, 3)
		c.do("ZADD", c.keys.Queue(), "1", "?")
		check(core.Look, second, core.Waits, 2, 3)
		check(core.Look, none, core.Nowhere, -1, 3)
	})
}

// A ticket with a bound joins, and is taken out in the same step if too many wait. That does not keep the queue.
func TestATicketWithABoundTakesNoPlaceAmongTooMany(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		redis := openAt(t, s)
		for name, test := range map[string]struct {
			before  int
			most    int
			held    bool
			granted bool
			full    bool
			tickets int
		}{
			"the only one":                    {0, 1, true, false, false, 1},
			"none may wait":                   {0, 0, true, false, true, 0},
			"none may wait, and it is free":   {0, 0, false, true, false, 0},
			"the last that may":               {2, 3, true, false, false, 3},
			"one too many":                    {2, 2, true, false, true, 2},
			"behind the dead, and it is free": {2, 1, false, true, false, 0},
		} {
			t.Run(name, func(t *testing.T) {
				c := newCrowd(t, redis, name)
				if !test.held {
					c.do("DEL", c.keys.Key)
				}
				if c.joins(test.before); test.before > 0 {
					c.do("PEXPIRE", c.keys.Queue(), "5000")
				}
				mine := ticket()
				answer := c.step(core.Command{Op: core.Join, Bound: core.Bound{Bounded: true, Most: test.most}}, false, mine)
				require.NoError(t, answer.Err)
				assert.Equal(t, test.granted, answer.Found == core.Holds)
				assert.Equal(t, test.full, answer.Full)
				assert.Equal(t, test.tickets, answer.Tickets)
				if !test.full {
					return
				}
				there, err := c.do("ZCARD", c.keys.Queue()).ToInt64()
				require.NoError(t, err)
				assert.Equal(t, test.before, int(there), "it takes no place")
				left, err := c.do("PTTL", c.keys.Queue()).ToInt64()
				require.NoError(t, err)
				assert.LessOrEqual(t, left, int64(5000), "and does not keep a queue of dead tickets")
			})
		}
	})
}

// A user without the right to count gets an error, and no ticket joins.
func TestATicketWithABoundNeedsTheRightToCount(t *testing.T) {
	s := redistest.Standalone(t)
	all := openAt(t, s)
	c := newCrowd(t, all, "lock")
	c.do("ACL", "SETUSER", "poor", "reset", "on", ">secret", "~*", "&*", "+@all", "-zcount")
	option := s.Options()
	option.Username, option.Password, option.DisableCache = "poor", "secret", true
	redis, err := wire.Open(wire.Options{Redis: option}, wire.NewID().Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	poor := *c
	poor.redis = redis
	refused := poor.step(core.Command{Op: core.Join, Bound: core.Bound{Bounded: true, Most: 5}}, false, ticket())
	require.ErrorIs(t, wire.Explain(refused.Err), wire.ErrNoPermission)
	there, err := c.do("EXISTS", c.keys.Queue()).ToInt64()
	require.NoError(t, err)
	assert.Zero(t, there)
	for _, counts := range []bool{false, true} {
		answer := poor.step(core.Command{Op: core.Join}, counts, ticket())
		require.NoError(t, answer.Err, "others do not need it")
		assert.Equal(t, c.holder, answer.Owner)
		assert.Zero(t, answer.Tickets, "nor does it learn how many there are")
		assert.NotEqual(t, core.Nowhere, answer.Found)
	}
}
