package wire_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// them is the owner of a foreign client.
const them = "0123abcd-0123-4123-8123-0123456789ab:1"

func TestTheAnswersToAnAcquire(t *testing.T) {
	redis := open(t)
	foreign := core.Reply{Foreign: true, TTL: core.Span(29 * time.Second)}
	for _, test := range []struct {
		reply  string
		tokens uint64
		answer core.Reply
		owner  string
		fails  bool
	}{
		{"false", 0, core.Reply{Found: core.Holds}, "", false},
		{"'7'", 3, core.Reply{Found: core.Holds, Token: 7}, "", false},
		{"{29000, '" + them + "'}", 0, foreign, them, false},
		{"{-1, '" + them + "'}", 0, core.Reply{Foreign: true, TTL: core.NoTTL}, them, false},
		{"{-1, ''}", 1, core.Reply{}, "", false},
		{"'2'", 3, core.Reply{}, "", true},   // fewer tokens than reserved
		{"'x'", 1, core.Reply{}, "", true},   // not a number
		{"false", 1, core.Reply{}, "", true}, // granted without a token
		{"{1}", 0, core.Reply{}, "", true},
		{"1", 0, core.Reply{}, "", true},
	} {
		x := &wire.Exchange{Cmd: core.Command{Op: core.Acquire, Tokens: test.tokens}, Kind: wire.Plain}
		a := redis.Read(x, reply(t, redis, test.reply))
		if test.fails {
			assert.Error(t, a.Err, test.reply)
			continue
		}
		require.NoError(t, a.Err, test.reply)
		assert.True(t, a.Heard)
		assert.Equal(t, test.answer, a.Reply, test.reply)
		assert.Equal(t, test.owner, string(a.Owner), test.reply)
	}
}

func TestTheAnswersToAStep(t *testing.T) {
	redis := open(t)
	ms := func(n int64) core.Span { return core.Span(n * int64(time.Millisecond)) }
	foreign := func(r core.Reply) core.Reply {
		r.Foreign, r.TTL = true, ms(50)
		return r
	}
	for _, test := range []struct {
		reply  string // with "them" for the holder
		tokens uint64
		answer core.Reply
		before int
		fails  bool
	}{
		{"{1, -1, '', -2, ''}", 0, core.Reply{Left: true, Found: core.Holds}, -1, false},
		{"{0, 50, 'them', 9, 2}", 0, foreign(core.Reply{Window: ms(9), Found: core.First}), -1, false},
		{"{0, 50, 'them', 0, 2}", 0, foreign(core.Reply{Window: 1, Found: core.First}), -1, false},
		{"{0, 50, 'them', -2, 0}", 4, foreign(core.Reply{}), -1, false},
		{"{0, 50, 'them', -2, 1, 900}", 0, foreign(core.Reply{HeldBack: true, HeldFor: ms(900), Found: core.Waits}), -1, false},
		{"{0, 50, 'them', -2, 1, 0}", 0, foreign(core.Reply{HeldBack: true, Found: core.Waits}), -1, false},
		{"{0, -2, '', -2, 0}", 0, core.Reply{}, -1, false},
		{"{0, 50, 'them', -2, 1, 'x'}", 0, core.Reply{}, 0, true},
		{"{0, -1, '', -2, '12'}", 4, core.Reply{Found: core.Holds, Token: 12}, -1, false},
		{"{0, -1, '', -2, '3'}", 4, core.Reply{}, 0, true}, // fewer tokens than reserved
		{"{0, -1, '', -2}", 0, core.Reply{}, 0, true},
		{"{'x', -1, '', -2, 1}", 0, core.Reply{}, 0, true},
		{"{0, -1, {}, -2, 1}", 0, core.Reply{}, 0, true},
		{"{0, 50, 'them', -2, -1}", 0, foreign(core.Reply{Full: true}), -1, false},
		{"{0, 50, 'them', -2, {2, 1, 3}}", 0, foreign(core.Reply{Found: core.First, Tickets: 3}), 0, false},
		{"{0, 50, 'them', -2, {1, 3, 3}}", 0, foreign(core.Reply{Found: core.Waits, Tickets: 3}), 2, false},
		{"{0, 50, 'them', -2, {-1, 0, 3}}", 0, foreign(core.Reply{Full: true, Tickets: 3}), -1, false},
		// There is no such position.
		{"{0, 50, 'them', -2, 3}", 0, core.Reply{}, 0, true},
		{"{0, 50, 'them', -2, -2}", 0, core.Reply{}, 0, true},
		{"{0, 50, 'them', -2, {3, 1, 3}}", 0, core.Reply{}, 0, true},
		{"{0, 50, 'them', -2, {-2, 1, 3}}", 0, core.Reply{}, 0, true},
		{"7", 0, core.Reply{}, 0, true},
	} {
		x := &wire.Exchange{Cmd: core.Command{Op: core.Join, Tokens: test.tokens}, Kind: wire.Plain}
		a := redis.Read(x, reply(t, redis, strings.ReplaceAll(test.reply, "them", them)))
		if test.fails {
			assert.Error(t, a.Err, test.reply)
			assert.Equal(t, core.Unknown, a.Fault, test.reply)
			continue
		}
		require.NoError(t, a.Err, test.reply)
		assert.Equal(t, test.answer, a.Reply, test.reply)
		assert.Equal(t, test.before, a.Before, test.reply)
	}
}

// An answer names the tenure that has the lock: of this client, of another one of rlock, or of
// neither.
func TestAnAnswerNamesTheHolder(t *testing.T) {
	id := wire.NewID()
	redis := openWith(t, redistest.Embedded(t), id, func(*wire.Options) {})
	mine, theirs := string(id.Text(1<<63, 7)), string(wire.NewID().Text(1<<63, 7))
	for owner, want := range map[string]core.ID{
		mine: {Client: wire.ThisClient, N: 1 << 63}, theirs: {Client: wire.OtherClient, N: 1 << 63}, them: {}, "some text": {},
	} {
		x := &wire.Exchange{Cmd: core.Command{Op: core.Acquire}, Kind: wire.Plain}
		a := redis.Read(x, reply(t, redis, "{1000, '"+owner+"'}"))
		require.NoError(t, a.Err)
		assert.Equal(t, core.Reply{Holder: want, Foreign: want == core.ID{}, TTL: core.Span(time.Second)}, a.Reply)
		assert.Equal(t, owner, string(a.Owner))
	}
}

func TestTheMessagesToAClient(t *testing.T) {
	redis := open(t)
	const u = "0123abcd-0123-8123-8123-0123456789ab:1"
	id := core.ID{Client: wire.OtherClient, N: 0x8123_0123456789ab}
	granted := func(token, tokens uint64) core.Message {
		return core.Message{Kind: core.Granted, ID: id, Token: token, Tokens: tokens}
	}
	several := granted(0, 0)
	several.More = 2
	for message, notice := range map[string]wire.TicketMessage{
		"+" + u + "   x":                      {Message: granted(0, 0), Ticket: u, Lock: "x"},
		"+" + u + "*3   x":                    {Message: several, Ticket: u + "*3", Lock: "x"},
		"+" + u + " 9 2 x y ":                 {Message: granted(9, 2), Ticket: u, Lock: "x y "},
		"+" + u + " 2 9 x":                    {Message: granted(0, 0), Ticket: u, Lock: "x"}, // an impossible number of tokens
		"+" + u + " 9 0 x":                    {Message: granted(0, 0), Ticket: u, Lock: "x"},
		"+" + u + " 18446744073709551616 1 x": {Message: granted(0, 0), Ticket: u, Lock: "x"},
		"?" + u + " x":                        {Message: core.Message{Kind: core.AtFront, ID: id}, Ticket: u, Lock: "x"},
		"=" + u + " 3 x yan answer ":          {Message: core.Message{Kind: core.Satisfied, ID: id}, Ticket: u, Lock: "x y", Answer: "an answer "},
		"=" + u + " 1 x":                      {Message: core.Message{Kind: core.Satisfied, ID: id}, Ticket: u, Lock: "x"},
	} {
		n, ok := redis.ParseTicketMessage(message)
		assert.True(t, ok, message)
		assert.Equal(t, notice, n, message)
	}
	for _, message := range []string{"", "+", "?", "+" + u, "+" + u + " 1 1", "?" + u, "0", u + " x", "+u:1   x", "?u:1 x", "=", "=" + u, "=" + u + " 2 x", "=" + u + " -1 x", "=" + u + " x x", "=u:1 1 x"} {
		_, ok := redis.ParseTicketMessage(message)
		assert.False(t, ok, message)
	}
}

// An acquire takes back what it has written. Another command that fails inside of its script may
// have done a part.
func TestTheErrorsOfRedisSayWhetherACommandHasRun(t *testing.T) {
	redis := redistest.Embedded(t).Client(t)
	const inside = " script: f_ab, on @user_script:12."
	for _, c := range []struct {
		op    core.Op
		reply string // "" for none
		fault core.Fault
	}{
		{core.Acquire, "", core.Unknown},
		{core.Acquire, "READONLY You can't write against a read only replica." + inside, core.NotRun},
		{core.Acquire, "ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.", core.NotRun},
		{core.Acquire, "OOM command not allowed when used memory > 'maxmemory'.", core.NotRun},
		{core.Acquire, "NOPERM this user has no permissions to run the 'zcard' command" + inside, core.Fatal},
		{core.Acquire, "WRONGTYPE Operation against a key holding the wrong kind of value" + inside, core.Fatal},
		{core.Look, "NOPERM this user has no permissions to run the 'zcard' command", core.Fatal},
		{core.Look, "NOPERM this user has no permissions to run the 'zcard' command" + inside, core.Unknown},
		{core.Join, "READONLY You can't write against a read only replica." + inside, core.Unknown},
		{core.Join, "READONLY You can't write against a read only replica.", core.NotRun},
		{core.Mirror, "", core.Unknown},
		{core.Mirror, "NOPERM this user has no permissions to run the 'evalsha' command", core.NotRun},
		{core.Mirror, "WRONGTYPE Operation against a key holding the wrong kind of value" + inside, core.Fatal},
		{core.Leave, "NOPERM this user has no permissions to run the 'evalsha' command", core.NotRun},
		{core.Leave, "OOM command not allowed when used memory > 'maxmemory'." + inside, core.Unknown},
		{core.Leave, "WRONGTYPE Operation against a key holding the wrong kind of value", core.Fatal},
	} {
		err := errors.New("EOF")
		if c.reply != "" {
			err = redis.Do(t.Context(), redis.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(c.reply).Build()).Error()
			var said *rueidis.RedisError
			require.ErrorAs(t, err, &said)
		}
		assert.Equal(t, c.fault, wire.FaultOf(c.op, err), "%d: %s", c.op, c.reply)
	}
}

// The score of a permit is the end of its lease; one whose lease has ended does not count. A member of
// a semaphore's key may have any score.
func TestThePermitsOfOwnersAreRead(t *testing.T) {
	redis := open(t)
	three := wire.NewID().Text(1<<63, 3)
	require.NoError(t, do(t, redis, "ZADD", "permits", "-1e300", "low", "5000", "over", "5001", "one", "7000", string(three.WithMore(2)), "+inf", "endless").Error())
	members := do(t, redis, "ZRANGE", "permits", "0", "-1", "WITHSCORES")
	held, err := wire.PermitsOf(members, reply(t, redis, "{'5', '0'}"))
	require.NoError(t, err)
	require.Len(t, held, 3)
	assert.Equal(t, []wire.Permit{{Owner: "one", Count: 1, Left: time.Millisecond}, {Owner: three, Count: 3, Left: 2 * time.Second}}, held[:2])
	assert.EqualValues(t, "endless", held[2].Owner)
	for _, clock := range []string{"{}", "{'5'}", "{'5', '0', '0'}", "{'5', 'x'}", "redis.error_reply('ERR no')"} {
		_, err := wire.PermitsOf(members, reply(t, redis, clock))
		require.Error(t, err, clock)
	}
}

// lock(Long.MAX_VALUE, MILLISECONDS) is possible in Java.
func TestAForeignLeaseMayBeLongerThanADuration(t *testing.T) {
	assert.Equal(t, 5*time.Second, wire.Milliseconds(5000))
	assert.InDelta(t, float64(math.MaxInt64), wire.Milliseconds(31556952000000000), float64(time.Millisecond))
}

func TestAnErrorThatIsNotRedisAnswerSaysWhetherTheCommandMayHaveRun(t *testing.T) {
	for _, test := range []struct {
		err   error
		means wire.Diagnosis
	}{
		{rueidis.ErrNoSlot, wire.NotNow}, // it was not sent: no node has the slot
		{fmt.Errorf("dial: %w", rueidis.ErrClosing), wire.NotNow},
		{wire.NotALock("status"), wire.Never},
		{fmt.Errorf("lock: %w", wire.ErrNoPermission), wire.Never}, // what it has said before
		{fmt.Errorf("lock: %w", wire.ErrUnsupported), wire.Never},
		{errors.New("EOF"), wire.Unknown},
	} {
		diagnosis, err := wire.Diagnose(test.err)
		assert.Equal(t, test.means, diagnosis, test.err)
		assert.ErrorIs(t, err, test.err)
	}
}

// A guard and a release catch the errors of a source, and raise them again.
func TestARefusalThatAScriptRaisesAgainIsOneOfAMissingRight(t *testing.T) {
	s := redistest.Standalone(t)
	require.NoError(t, do(t, openAt(t, s), "ACL", "SETUSER", "poor", "reset", "on", ">secret", "~*", "&*", "+@all", "-hmget").Error())
	poor := openWith(t, s, wire.NewID(), func(o *wire.Options) { o.Redis.Username, o.Redis.Password = "poor", "secret" })
	err := do(t, poor, "EVAL", "local done, reply = pcall(function() return redis.call('hmget', KEYS[1], 'a') end) if not done then error(reply, 0) end", "1", "key").Error()
	diagnosis, err := wire.Diagnose(err)
	assert.Equal(t, wire.Never, diagnosis)
	assert.ErrorIs(t, err, wire.ErrNoPermission)
}

// A key that has gone by the time that Redis is to track it would send no notice.
func TestAKeyThatIsGoneWhenItIsTrackedCountsAsChanged(t *testing.T) {
	id := wire.NewID()
	redis := openWith(t, redistest.Embedded(t), id, func(o *wire.Options) {
		o.Tracking, o.Redis.PipelineMultiplex = true, -1 // as package rlock
	})
	changed := make(chan string, 10)
	redis.OnChange(func(keys []string) {
		for _, key := range keys {
			changed <- key
		}
	})
	call := func(name, owner string) wire.Call {
		keys := keysOf(t, redis, name, wire.Plain.Layout)
		c := redis.CallOf(leave(&keys, owner))
		c.Track = []string{name}
		return c
	}
	known := call("gone", id.Owner(1))
	known.Track = nil
	require.NoError(t, redis.Do(t.Context(), known).Error(), "the script is known now")
	require.NoError(t, do(t, redis, "HSET", "there", id.Owner(1), "1").Error())
	results, _ := redis.DoAll(t.Context(), []wire.Call{call("there", id.Owner(2)), call("gone", id.Owner(1))})
	for _, result := range results {
		require.NoError(t, result.Error())
	}
	require.Len(t, changed, 1)
	assert.Equal(t, "gone", <-changed)
	assert.EqualValues(t, 1, redis.TrackingRefused(), "the embedded server has none")

	redis.DoAll(t.Context(), []wire.Call{call("gone", id.Owner(1))})
	assert.Empty(t, changed, "it is not asked again")
}

// The counter of a fenced lock may be at its end, which INCRBY says in other words.
func TestACounterThatIsFullIsNoCounter(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Fenced.Layout)
	require.NoError(t, do(t, redis, "SET", keys.Extra(), "9223372036854775807").Error())
	x := &wire.Exchange{Kind: wire.Fenced, Keys: &keys, Text: wire.OwnerText(wire.NewID().Owner(1))}
	x.Cmd = core.Command{Op: core.Acquire, Lease: core.Span(time.Minute), Tokens: 1}
	answer := carry(t, redis, x)
	require.ErrorIs(t, wire.Explain(answer.Err), wire.ErrWrongType)
	assert.ErrorContains(t, wire.Explain(answer.Err), keys.Extra())
	assert.Equal(t, core.Fatal, answer.Fault)
}
