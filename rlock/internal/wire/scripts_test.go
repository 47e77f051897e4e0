package wire_test

import (
	"fmt"
	"math/rand/v2"
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

func TestACallWhoseScriptTheServerHasForgottenIsSentAgain(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	id := wire.NewID()
	release := redis.CallOf(leave(&keys, id.Owner(1)))
	ways := map[string]func() error{
		"one": func() error { return redis.Do(t.Context(), release).Error() },
		"one and a message": func() error {
			return redis.DoAndTell(t.Context(), release, wire.ClientMessage{Verb: wire.Forced, Owner: wire.OwnerText(id.Owner(1)), Text: "lock"}).Error()
		},
		"one that waits for replicas": func() error {
			x := leave(&keys, id.Owner(1))
			redis.DoReplicated(t.Context(), x)
			return x.Answer.Err
		},
	}
	for name, send := range ways {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, do(t, redis, "SCRIPT", "FLUSH").Error())
			require.NoError(t, send(), "forgotten")
			require.NoError(t, send(), "known")
		})
	}
}

func TestOnlyTheCallsWhoseScriptTheServerHasForgottenAreSentAgain(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	id := wire.NewID()
	acquire := func() wire.Call {
		return wire.Acquire.Call(2, keys.Key, keys.Queue(), "30000", id.Owner(1))
	}
	require.Error(t, redis.Do(t.Context(), wire.Acquire.Call(0)).Error(), "the script is known now, and has changed nothing")
	release := redis.CallOf(leave(&keys, id.Owner(1)))

	results, _ := redis.DoAll(t.Context(), []wire.Call{release, acquire(), release, acquire()})
	require.Len(t, results, 4)
	left, err := results[0].AsInt64()
	require.NoError(t, err)
	assert.Zero(t, left)
	_, err = results[1].ToMessage()
	assert.True(t, rueidis.IsRedisNil(err), "the lock is not granted")
	left, err = results[2].AsInt64()
	require.NoError(t, err)
	assert.Zero(t, left)
	denial, err := results[3].ToArray()
	require.NoError(t, err, "it was executed more than once")
	assert.Len(t, denial, 2)
}

// A call may have to send the unmark of a tenure, though the keeper sends most: it is no call of a
// script.
func TestAnUnmarkIsCarriedByItself(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	owner := wire.NewID().Owner(1)
	require.NoError(t, do(t, redis, "ZADD", keys.Queue(), "0", "!"+owner[:wire.TenureLen-1]).Error())
	x := &wire.Exchange{Cmd: core.Command{Op: core.Unmark}, Kind: wire.Plain, Keys: &keys, Text: wire.OwnerText(owner)}
	redis.Carry(t.Context(), x)
	require.NoError(t, x.Answer.Err)
	assert.Zero(t, number(t, redis, "EXISTS", keys.Queue()))
}

// A lease that is over as soon as it is set leaves no key: PEXPIRE has deleted the key by the time
// at which the script goes on, and a field that is written then would have no lease.
func TestALeaseThatIsOverAtOnceLeavesNoKey(t *testing.T) {
	redis := open(t)
	id := wire.NewID()
	holder, next := id.Owner(7), id.Owner(8)
	passed := holder[:wire.TenureLen] + "0"
	for name, row := range map[string]struct {
		data []string // the lock as it is before
		call wire.Call
	}{
		"mirror": {[]string{"HSET", "lock", holder, "1"}, wire.Mirror.Call(1, "lock", "p", "=0", passed, "1", "", "")},
		"mirror of a reader": {
			[]string{"HSET", "lock", "mode", "read", holder, "1"},
			wire.ReadWriteMirror.Call(3, "lock", "prefix", "channel", "p", "=0", passed, "0", "1", ""),
		},
		"mirror of a writer": {
			[]string{"HSET", "lock", "mode", "write", holder + ":write", "1"},
			wire.ReadWriteMirror.Call(3, "lock", "prefix", "channel", "p", "=0", passed, "1", "0", ""),
		},
		"mirror of a permit": {[]string{"ZADD", "lock", "4102444800000", holder}, wire.SemaphoreMirror.Call(2, "lock", "queue", "p", "=0", passed)},
		"resume":             {[]string{"HSET", "lock", passed, "1"}, wire.Resume.Call(4, "lock", "queue", "foreign", "channel", "p", "0", passed, next, "x")},
		"resume of a permit": {[]string{"ZADD", "lock", "4102444800000", passed}, wire.SemaphoreResume.Call(2, "lock", "queue", "0", passed, next)},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, do(t, redis, "DEL", "lock").Error())
			require.NoError(t, do(t, redis, row.data...).Error())
			_ = redis.Do(t.Context(), row.call).Error() // the key of a reader's lease may not end at once
			assert.Zero(t, number(t, redis, "EXISTS", "lock"), "it stays for ever")
		})
	}
}

// Several locks in one call are acquired as one after the other, up to the first that is refused.
func TestOneCallAcquiresSeveralLocksAsOneAfterTheOther(t *testing.T) {
	id := wire.NewID()
	mine, theirs := id.Owner(1), id.Owner(2)
	kinds := map[string]struct {
		kind *wire.Kind
		cmd  core.Command
		hold func(k *wire.Keys, owner string) []string
	}{
		"plain": {wire.Plain, core.Command{}, func(k *wire.Keys, owner string) []string { return []string{"HSET", k.Key, owner, "1"} }},
		"fenced": {wire.Fenced, core.Command{Tokens: 3}, func(k *wire.Keys, owner string) []string {
			return []string{"HSET", k.Key, owner, "1"}
		}},
		"write": {wire.ReadWrite, core.Command{}, func(k *wire.Keys, owner string) []string {
			return []string{"HSET", k.Key, "mode", "write", owner + ":write", "1"}
		}},
		"semaphore": {wire.Semaphore, core.Command{Permits: 1}, func(k *wire.Keys, owner string) []string {
			return []string{"ZADD", k.Key, "99999999999999", owner}
		}},
	}
	rounds := uint64(100)
	if testing.Short() {
		rounds = 20
	}
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		redis := openAt(t, s)
		do := func(args ...string) string {
			m, _ := do(t, redis, args...).ToMessage()
			return m.String()
		}
		for name, kind := range kinds {
			t.Run(name, func(t *testing.T) {
				for seed := range rounds {
					random := rand.New(rand.NewPCG(seed, 0))
					var sets [2][]wire.Keys
					for i := range 1 + random.IntN(5) {
						state := random.IntN(8) // most are free
						for set := range sets {
							k := keysOf(t, redis, fmt.Sprintf("{%s}%d.%d.%d", name, seed, set, i), kind.kind.Layout)
							sets[set] = append(sets[set], k)
							switch state {
							case 0:
								do(kind.hold(&k, theirs)...)
							case 1:
								do(kind.hold(&k, mine)...)
							case 2:
								do("ZADD", k.Queue(), "1", "x"+theirs)
							case 3:
								do("SET", k.Key, "something else")
							}
						}
					}
					acquire := func(k *wire.Keys) *wire.Exchange {
						x := &wire.Exchange{Cmd: kind.cmd, Kind: kind.kind, Keys: k, Text: wire.OwnerText(mine)}
						x.Cmd.Op, x.Cmd.Lease = core.Acquire, core.Span(30*time.Second)
						return x
					}
					text := func(a wire.Answer) string {
						a.TTL = min(a.TTL, 1)
						return fmt.Sprint(a.Found, a.Owner, a.TTL, a.Token, a.Err != nil)
					}
					var all []*wire.Exchange
					var want, got []string
					refused := false
					for i := range sets[0] {
						all = append(all, acquire(&sets[0][i]))
						if refused {
							continue
						}
						answer := carry(t, redis, acquire(&sets[1][i]))
						refused = answer.Found != core.Holds
						want = append(want, text(answer))
					}
					result := redis.Do(t.Context(), redis.CallOf(all...))
					redis.ReadAll(all, result)
					if result.Error() != nil && len(all) > 1 { // of a command of the last one that was asked for
						got = append(got, want[:len(want)-1]...)
						got = append(got, text(all[0].Answer))
					} else {
						for i, x := range all {
							if i < len(want) {
								got = append(got, text(x.Answer))
							} else {
								assert.Equal(t, core.Skipped, x.Answer.Fault, "seed %d: it is not asked for", seed)
							}
						}
					}
					require.Equal(t, want, got, "seed %d", seed)
					for i := range sets[0] {
						a, b := &sets[0][i], &sets[1][i]
						here := []string{do("HGETALL", a.Key), do("ZRANGE", a.Key, "0", "-1"), do("GET", a.Key), do("GET", "redisson_lock_token:"+a.Key)}
						there := []string{do("HGETALL", b.Key), do("ZRANGE", b.Key, "0", "-1"), do("GET", b.Key), do("GET", "redisson_lock_token:"+b.Key)}
						assert.Equal(t, there, here, "seed %d: lock %d", seed, i)
					}
				}
			})
		}
	})
}

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
				x := &wire.Exchange{Kind: kind, Keys: &keys, Text: wire.OwnerText(ticket)}
				x.Cmd = core.Command{Op: op, Ticket: core.Ticket{Mode: mode}, Lease: core.Span(time.Minute), Permits: permits[kind]}
				if step == "release and join" {
					x.Joins, x.Cmd.Joins = wire.OwnerText(id.Owner(2)), core.Ticket{Mode: mode}
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
	calls["semaphore, mirror"] = wire.Call{Script: wire.SemaphoreMirror, Keys: []string{keys.Key}, Args: []string{"p", "60000", ticket}}

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
				assert.EqualValues(t, -1, number(t, redis, "PTTL", "settings"))
			})
		}
	}
}

// The scripts and this package tell owners apart by the same rule.
func TestTheScriptsKnowOurOwnersAsThisPackageDoes(t *testing.T) {
	redis := open(t)
	text := textOf(t, "scripts/owners.lua")
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
		assert.Equal(t, want, wire.OwnerText(owner).IsOurs(), owner)
		for function, want := range map[string]bool{"isOurs": want, "mayOwn": wire.MayOwn(owner)} {
			n := number(t, redis, "EVAL", text+"return "+function+"(ARGV[1]) and 1 or 0", "0", owner)
			assert.Equal(t, want, n == 1, "%s(%q)", function, owner)
		}
	}
}

// The scripts and this package take the same parts out of the text of an owner.
func TestTheScriptsTakeAnOwnerApartAsThisPackageDoes(t *testing.T) {
	redis := open(t)
	source := textOf(t, "scripts/owners.lua") + textOf(t, "scripts/tenures.lua") + textOf(t, "scripts/permits.lua")
	source += "local t = ARGV[1] return {clientOf(t), uuidOf(t), tenureOf(t), markOf(t), tostring(isOurs(t) and isPassed(t)), tostring(moreOf(t)), passedAs(t), tostring(isWriter(t))}"
	tenure := wire.NewID().Text(1<<63, 7).Tenure()
	for _, behind := range []string{"7", "0", "18446744073709551615", "7*3", "0*3", "7*1", "7*x", "7*", "7*-5", "7:write", "70", string(wire.OwnerText(tenure + "7").WithNote(wire.Note{Text: "*3:write 0", At: time.UnixMilli(5)})[37:]), "7#5,a*3", "7#5,a:write"} {
		text := wire.OwnerText(tenure + behind)
		_, more := text.CutMore()
		_, writes := text.CutWrite()
		want := []string{
			text.ClientID(), text.UUID(), text.Tenure(), text.Mark(), fmt.Sprint(text.IsPassed()), fmt.Sprint(more),
			string(wire.OwnerText(tenure + "0").WithMore(more)), fmt.Sprint(writes),
		}
		got, err := do(t, redis, "EVAL", source, "0", string(text)).AsStrSlice()
		require.NoError(t, err)
		if more == 0 { // an odd end stays what it is
			got[6], _, _ = strings.Cut(got[6], "*")
		}
		assert.Equal(t, want, got, behind)
	}
}

// A text of another program may be anything.
func TestTheTextOfAnOwnerMayBeAnything(t *testing.T) {
	for _, text := range []wire.OwnerText{"", "*", "*3", "mode", "a*3:1", "?", "0123abcd-0123-4123-9123-0123456789ab"} {
		assert.Empty(t, text.Tenure(), text)
		assert.Empty(t, text.UUID(), text)
		assert.Zero(t, text.OwnerID(), text)
		assert.False(t, text.IsOurs() || text.IsPassed(), text)
		one, more := text.CutMore()
		assert.Equal(t, text, one)
		assert.Zero(t, more, text)
	}
	const theirs = wire.OwnerText("0123abcd-0123-4123-9123-0123456789ab:42")
	assert.EqualValues(t, 42, theirs.OwnerID(), "a thread of Redisson")
	assert.False(t, theirs.IsOurs())
	for member, want := range map[string]wire.Member{
		"x" + string(theirs): {Ticket: theirs}, "s" + string(theirs): {Ticket: theirs, Shared: true},
		"X" + string(theirs): {Ticket: theirs, Polls: true}, "S" + string(theirs): {Ticket: theirs, Shared: true, Polls: true},
		"a" + string(theirs): {Ticket: theirs}, "b" + string(theirs): {Ticket: theirs}, "A" + string(theirs): {Ticket: theirs, Polls: true},
		"?": {}, "": {}, "x": {}, theirs.Mark(): {}, "z" + string(theirs): {},
	} {
		m, ok := wire.ParseMember(member)
		assert.Equal(t, want, m, member)
		assert.Equal(t, want != wire.Member{}, ok, member)
	}
}

// The steps that are nearly all where clients wait end in swift.lua: whatever keeps them from that
// costs Redis time, and changes nothing that the comparison with the model could tell.
func TestTheCommonStepsTakeTheShortWay(t *testing.T) {
	swift, plain := textOf(t, "scripts/swift.lua"), wire.PlainStep.Text()
	require.Contains(t, plain, swift)
	short := wire.ScriptOf(strings.Replace(plain, swift, swift+"if true then return redis.error_reply('the long way') end\n", 1))
	p := newProcess(t)
	redis := openAt(t, p.server)
	for name, test := range map[string]struct {
		kind   *wire.Kind
		tokens uint64
	}{"plain": {wire.Plain, 0}, "fenced": {wire.Fenced, 1}} {
		t.Run(name, func(t *testing.T) {
			keys := keysOf(t, redis, "lock", test.kind.Layout)
			require.NoError(t, do(t, redis, "FLUSHALL").Error())
			do := func(op core.Op, text, joins string, on *wire.Script) {
				t.Helper()
				x := &wire.Exchange{Cmd: core.Command{Op: op, Lease: core.Span(30 * time.Second), Tokens: test.tokens}, Kind: test.kind, Keys: &keys, Text: wire.OwnerText(text), Joins: wire.OwnerText(joins)}
				call := redis.CallOf(x)
				if on != nil {
					call.Script = on
				}
				answer := redis.Read(x, redis.Do(t.Context(), call))
				assert.NoError(t, answer.Err)
				assert.Equal(t, op == core.Leave, answer.Left)
			}
			client := func() *wire.ID {
				id := wire.NewID()
				p.listen(id.Prefix, keys.GrantChannels()+id.Prefix, true) // else it is dropped
				return id
			}
			other := client()
			first, second, again, third, fourth := client().Owner(1), other.Owner(1), other.Owner(2), client().Owner(1), client().Owner(1)
			do(core.Acquire, first, "", nil)
			do(core.Join, second, "", short)
			do(core.Join, third, "", short)
			do(core.Leave, first, "", short)
			do(core.Leave, second, again, short) // which has a mark in the queue
			do(core.Join, fourth, "", short)
			do(core.Leave, third, "", short)
			do(core.Leave, again, "", short)
		})
	}
}

// The keys of other readers cannot be declared. On a server that demands it the first acquire is
// refused, and leaves nothing.
func TestAServerThatDemandsDeclaredKeysRefusesAReadWriteLock(t *testing.T) {
	prelude := textOf(t, "testdata/strict.lua")
	strict := strings.Replace(prelude, "local readers = true", "local readers = false", 1)
	require.NotEqual(t, strict, prelude)
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		redis := openAt(t, s)
		k := keysOf(t, redis, "lock", layouts[2])
		owner := wire.NewID().Owner(1)
		acquire := wire.ScriptOf(strict + wire.ReadWriteAcquire.Text())
		for _, mode := range []string{"read", "write"} {
			err := redis.Do(t.Context(), acquire.Call(4, k.Key, k.Queue(), k.Extra(), k.Extra()+":"+owner+":rwlock_timeout:1", "30000", owner, mode)).Error()
			require.ErrorIs(t, wire.Explain(err), wire.ErrUnsupported, mode)
			assert.Zero(t, number(t, redis, "DBSIZE"), mode)
		}
	})
}

// A ticket that was granted the lock keeps it by a look, though the message and the queue are lost:
// PEXPIRE of a queue that is gone counts as the first write, as TestAFullServerLosesNoLock assumes.
func TestALookIsNotRefusedByAFullServer(t *testing.T) {
	redis := openAt(t, redistest.Standalone(t, "--maxmemory-policy", "noeviction"))
	keys, text := keysOf(t, redis, "lock", wire.ReadWrite.Layout), wire.NewID().Text(1<<63, 1)
	step := func(op core.Op) core.Found {
		x := &wire.Exchange{Cmd: core.Command{Op: op, Ticket: core.Ticket{Mode: core.Shared}, Lease: core.Span(time.Minute)}, Kind: wire.ReadWrite, Keys: &keys, Text: text}
		answer := carry(t, redis, x)
		require.NoError(t, answer.Err)
		return answer.Found
	}
	require.Equal(t, core.Holds, step(core.Join))
	require.NoError(t, do(t, redis, "DEL", keys.Queue()).Error())
	require.NoError(t, do(t, redis, "CONFIG", "SET", "maxmemory", "1").Error())
	defer do(t, redis, "CONFIG", "SET", "maxmemory", "0")
	assert.Equal(t, core.Holds, step(core.Look))
	assert.Greater(t, number(t, redis, "PTTL", keys.Key), int64(50_000), "for the whole lease")
}

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
		return carry(t, poor, &wire.Exchange{Cmd: cmd, Kind: wire.Plain, Keys: &keys, Counts: counts, Text: wire.NewID().Text(1<<63, 1)})
	}
	require.ErrorIs(t, wire.Explain(join(core.Command{Bound: core.Bound{Bounded: true, Most: 5}}, false).Err), wire.ErrNoPermission)
	assert.Zero(t, number(t, all, "EXISTS", keys.Queue()))
	for _, counts := range []bool{false, true} {
		answer := join(core.Command{}, counts)
		require.NoError(t, answer.Err, "others do not need it")
		assert.Equal(t, holder, string(answer.Owner))
		assert.Zero(t, answer.Tickets, "nor does it learn how many there are")
		assert.NotEqual(t, core.Nowhere, answer.Found)
	}
}

// A client of Redisson may have a lease of millions of years, which Lua writes as 1.8554258718e+17
// and PEXPIRE does not read.
func TestALeaseOfMillionsOfYearsIsRead(t *testing.T) {
	redis := openAt(t, redistest.Standalone(t))
	id := wire.NewID()
	const java, long = "0123abcd-0123-4123-9123-0123456789ab:1", "185542587180800500"
	reader, exactly := core.Ticket{Mode: core.Shared}, core.Mirrored{Reads: true, Exact: true}
	passed := id.Owner(0)
	for name, test := range map[string]struct {
		kind   *wire.Kind
		before [][]string // more fields of the hash
		cmds   []core.Command
		found  core.Found
	}{
		"acquire and leave": {wire.ReadWrite, nil, []core.Command{{Op: core.Acquire, Ticket: reader}, {Op: core.Mirror, Mirrored: exactly, Asks: true}, {Op: core.Leave, Ticket: reader}}, core.Holds},
		"join and look":     {wire.ReadWrite, nil, []core.Command{{Op: core.Join, Ticket: reader}, {Op: core.Look, Ticket: reader}}, core.Holds},
		"resume":            {wire.ReadWrite, [][]string{{"HSET", "lock", passed, "1"}}, []core.Command{{Op: core.Resume, Ticket: reader}}, core.Holds},
		"join in vain":      {wire.Plain, nil, []core.Command{{Op: core.Join}, {Op: core.Leave}}, core.First},
	} {
		t.Run(name, func(t *testing.T) {
			keys := keysOf(t, redis, "lock", test.kind.Layout)
			require.NoError(t, do(t, redis, "FLUSHALL").Error())
			if test.kind == wire.ReadWrite {
				require.NoError(t, do(t, redis, "HSET", "lock", "mode", "read").Error())
				require.NoError(t, do(t, redis, "SET", keys.Extra()+":"+java+":rwlock_timeout:1", "1", "PX", long).Error())
			}
			require.NoError(t, do(t, redis, "HSET", "lock", java, "1").Error())
			require.NoError(t, do(t, redis, "PEXPIRE", "lock", long).Error())
			for _, words := range test.before {
				require.NoError(t, do(t, redis, words...).Error())
			}
			text := id.Owner(1)
			for _, cmd := range test.cmds {
				cmd.Lease = core.Span(time.Minute)
				x := &wire.Exchange{Cmd: cmd, Kind: test.kind, Keys: &keys, Text: wire.OwnerText(text), Passed: wire.OwnerText(passed)}
				redis.Carry(t.Context(), x)
				require.NoError(t, x.Answer.Err, cmd.Op)
				if cmd.Op != core.Leave {
					assert.Equal(t, test.found, x.Answer.Found, cmd.Op)
				}
			}
			assert.Greater(t, number(t, redis, "PTTL", "lock"), int64(1e17))
		})
	}
}
