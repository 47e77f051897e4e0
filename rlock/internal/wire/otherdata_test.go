package wire_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A key may hold other data, or come to hold them while clients wait for a lock of that name.
func TestEachScriptLeavesOtherDataAsItIs(t *testing.T) {
	redis := open(t)
	id := wire.NewID()
	keys := keysOf(t, redis, "settings", wire.Layout{Channel: "redisson_lock__channel:", Extra: "more:", HasExtra: true})
	do := func(args ...string) rueidis.RedisResult { return do(t, redis, args...) }
	ticket := id.Owner(1)
	permits := map[*wire.Kind]int{wire.Semaphore: 3}
	calls := make(map[string]wire.Call)
	for name, kind := range map[string]*wire.Kind{"plain": wire.Plain, "read-write": wire.ReadWrite, "semaphore": wire.Semaphore} {
		for _, mode := range []core.Mode{core.Alone, core.Shared} {
			for step, op := range map[string]core.Op{"join": core.Join, "look": core.Look, "release": core.Leave, "release and join": core.Leave} {
				x := &wire.Exchange{Kind: kind, Keys: &keys, Text: ticket}
				x.Cmd = core.Command{Op: op, Ticket: core.Ticket{Mode: mode}, Lease: core.Span(time.Minute), Permits: permits[kind]}
				if step == "release and join" {
					x.Joins, x.Cmd.Joins = id.Owner(2), core.Ticket{Mode: mode}
				}
				calls[fmt.Sprint(name, ", ", mode, ", ", step)] = redis.CallOf(x)
			}
		}
	}
	calls["plain, acquire"] = wire.Acquire.Call(2, keys.Key, keys.Queue(), "60000", ticket)
	calls["read, acquire"] = wire.ReadWriteAcquire.Call(4, keys.Key, keys.Queue(), "{settings}", "{settings}:"+ticket+":rwlock_timeout:1", "60000", ticket, "read")
	calls["write, acquire"] = wire.ReadWriteAcquire.Call(4, keys.Key, keys.Queue(), "{settings}", "{settings}:"+ticket+":rwlock_timeout:1", "60000", ticket, "write")
	calls["semaphore, acquire"] = wire.SemaphoreAcquire.Call(2, keys.Key, keys.Queue(), "60000", ticket, "3")
	calls["plain, mirror"] = wire.Call{Script: wire.Mirror, Keys: []string{keys.Key}, Args: []string{"p", "60000", ticket, "1", "", ""}}
	calls["read, mirror"] = wire.Call{Script: wire.ReadWriteMirror, Keys: []string{keys.Key, "{settings}", keys.Channel()}, Args: []string{"p", "60000", ticket, "0", "1", ""}}
	calls["semaphore, mirror"] = wire.Call{Script: wire.SemaphoreMirror, Keys: []string{keys.Key}, Args: []string{"60000", ticket}}

	reads := map[string][]string{
		"SET": {"GET"}, "RPUSH": {"LRANGE", "0", "-1"}, "SADD": {"SMEMBERS"}, "HSET": {"HGETALL"}, "ZADD": {"ZRANGE", "0", "-1", "WITHSCORES"},
	}
	read := func(write []string) any {
		command := reads[write[0]]
		data, err := do(append([]string{command[0], "settings"}, command[1:]...)...).ToAny()
		require.NoError(t, err)
		return data
	}
	for what, write := range map[string][]string{
		"a string":                        {"SET", "settings", "precious"},
		"a list":                          {"RPUSH", "settings", "precious"},
		"a set":                           {"SADD", "settings", "precious"},
		"a hash":                          {"HSET", "settings", "retries", "5"},
		"a hash with the mode read":       {"HSET", "settings", "mode", "read", "retries", "5"},
		"a hash with the mode write":      {"HSET", "settings", "mode", "write", "retries", "5"},
		"a hash with another mode":        {"HSET", "settings", "mode", "dark", "retries", "5"},
		"a hash of the mode read":         {"HSET", "settings", "mode", "read"},
		"a hash with a text for a count":  {"HSET", "settings", "mode", "read", "retries:1", "often"},
		"a hash with a field with a text": {"HSET", "settings", "mode", "read", "retries", "often"},
		"a sorted set":                    {"ZADD", "settings", "9999999999999", "alice", "10", "bob"},
		"a sorted set with that colon":    {"ZADD", "settings", "1", "0123abcd+0123+8123+8123+0123456789ab:1"},
	} {
		for name, call := range calls {
			t.Run(what+": "+name, func(t *testing.T) {
				do("FLUSHALL")
				require.NoError(t, do(write...).Error())
				before := read(write)
				result := redis.Do(t.Context(), call)
				if err := result.Error(); err != nil {
					assert.ErrorIs(t, wire.Explain(err), wire.ErrWrongType)
				} else if n, err := result.AsInt64(); err == nil {
					assert.Zero(t, n, "nothing was released")
				} else {
					replies, err := result.ToArray()
					require.NoError(t, err)
					switch len(replies) {
					case 1:
						n, err := replies[0].AsInt64()
						require.NoError(t, err)
						assert.Zero(t, n, "nothing was mirrored")
					case 2: // an acquire that was refused
					default:
						assert.True(t, replies[4].IsInt64(), "it is not granted")
					}
				}
				assert.Equal(t, before, read(write))
				left, err := do("PTTL", "settings").AsInt64()
				require.NoError(t, err)
				assert.EqualValues(t, -1, left)
			})
		}
	}
}

// The scripts and this package tell owners apart by the same rule.
func TestTheScriptsKnowOurOwnersAsThisPackageDoes(t *testing.T) {
	redis := open(t)
	text, err := os.ReadFile("scripts/owners.lua")
	require.NoError(t, err)
	const ours = "0123abcd-0123-8123-9123-0123456789ab:17"
	for owner, want := range map[string]bool{
		ours:                        true,
		ours + ":write":             true,
		wire.NewID().Owner(1):       true,
		wire.NewID().Owner(1 << 63): true,
		"":                          false,
		"mode":                      false,
		"00000000000000800000:7":    false,
		ours[:37]:                   false, // without an id
		ours[:37] + "x":             false,
		"0123abcd-0123-4123-9123-0123456789ab:17": false, // Redisson's
		"0123abcd_0123-8123-9123-0123456789ab:17": false,
		"0123abcd-0123_8123-9123-0123456789ab:17": false,
		"0123abcd-0123-8123_9123-0123456789ab:17": false,
		"0123abcd-0123-8123-9123_0123456789ab:17": false,
		"0123abcd-0123-8123-9123-0123456789ab-17": false,
		"0123abcd-0123-8123-1123-0123456789ab:17": false, // the variant of no UUID
	} {
		assert.Equal(t, want, wire.IsOurs(owner), owner)
		for function, want := range map[string]bool{"isOurs": want, "mayOwn": wire.MayOwn(owner)} {
			script := string(text) + "return " + function + "(ARGV[1]) and 1 or 0"
			n, err := redis.Client.Do(t.Context(), redis.Client.B().Eval().Script(script).Numkeys(0).Arg(owner).Build()).AsInt64()
			require.NoError(t, err)
			assert.Equal(t, want, n == 1, "%s(%q)", function, owner)
		}
	}
}
