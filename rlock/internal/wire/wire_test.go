package wire_test

import (
	"math"
	"math/big"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// open returns a client's Redis on the embedded server.
func open(t testing.TB) *wire.Redis { return openAt(t, redistest.Embedded(t)) }

func openAt(t testing.TB, server *redistest.Server) *wire.Redis {
	return openWith(t, server, wire.NewID(), func(*wire.Options) {})
}

func openWith(t testing.TB, server *redistest.Server, id *wire.ID, change func(*wire.Options)) *wire.Redis {
	options := wire.Options{Redis: server.Options()}
	change(&options)
	return connect(t, options, id.Prefix)
}

func connect(t testing.TB, options wire.Options, prefix string) *wire.Redis {
	redis, err := wire.Open(options, prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	return redis
}

func do(t testing.TB, redis *wire.Redis, words ...string) rueidis.RedisResult {
	return redis.Client.Do(t.Context(), redis.Client.B().Arbitrary(words...).Build())
}

// number returns the reply to a command, which is a number.
func number(t testing.TB, redis *wire.Redis, words ...string) int64 {
	n, err := do(t, redis, words...).AsInt64()
	require.NoError(t, err)
	return n
}

func textOf(t testing.TB, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func keysOf(t testing.TB, redis *wire.Redis, name string, layout wire.Layout) wire.Keys {
	keys, err := redis.KeysOf(name, layout, "")
	require.NoError(t, err)
	return keys
}

// leave returns the release of an owner of a plain lock.
func leave(keys *wire.Keys, owner string) *wire.Exchange {
	return &wire.Exchange{Cmd: core.Command{Op: core.Leave}, Kind: wire.Plain, Keys: keys, Text: wire.OwnerText(owner)}
}

// carry makes the call of a command, whose foreign clients do not poll.
func carry(t testing.TB, redis *wire.Redis, x *wire.Exchange) wire.Answer {
	return redis.Read(x, redis.Do(t.Context(), redis.CallOf(x)))
}

// reply returns Redis' answer to a Lua expression.
func reply(t testing.TB, redis *wire.Redis, expression string) rueidis.RedisResult {
	return redis.Client.Do(t.Context(), redis.Client.B().Eval().Script("return "+expression).Numkeys(0).Build())
}

func TestMain(m *testing.M) { redistest.Main(m) }

// Any message is refused, or formats to itself again, with an owner that can be compared with
// that of a tenure.
func FuzzParseClientMessage(f *testing.F) {
	owner := wire.NewID().Owner(1)
	well := []string{"f " + owner + " orders:42", "f " + owner + "  ", "f " + owner + " line\nend\r\n", "f " + owner + " \x00\xff"}
	for _, message := range append(well, "", " ", "f", "f "+owner, "f "+owner+" ", "f 7 orders", "z "+owner+" orders", "ff "+owner+" orders", owner+" orders", "+"+owner+" 1 1 orders") {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		m, ok := wire.ParseClientMessage(message)
		if !ok {
			assert.Zero(t, m)
			assert.NotContains(t, well, message)
			return
		}
		assert.Equal(t, message, m.String())
		assert.GreaterOrEqual(t, len(m.Owner), wire.TenureLen)
		assert.NotContains(t, string(m.Verb)+string(m.Owner), " ")
		assert.NotEmpty(t, m.Text)
	})
}

// layouts are the layouts of all kinds.
var layouts = []wire.Layout{
	{Channel: "redisson_lock__channel:", Fair: true},
	{Channel: "redisson_lock__channel:", Extra: "redisson_lock_token:", HasExtra: true, Fair: true},
	{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
	{Channel: "rlock_grants:semaphore:", Suffix: "sem"},
}

func TestTheKeysOfALock(t *testing.T) {
	redis := open(t)
	for _, test := range []struct{ name, channel, queue, foreign, ushers string }{
		{"x", "redisson_lock__channel:{x}", "rlock_queue:{x}", "rlock_foreign:{x}", "rlock_grants:{x}:ushers"},
		{"{x}", "redisson_lock__channel:{x}", "rlock_queue:{x}:", "rlock_foreign:{x}:", "rlock_grants:{x}::ushers"},
		{"a{b}c", "redisson_lock__channel:a{b}c", "rlock_queue:a{b}c:", "rlock_foreign:a{b}c:", "rlock_grants:a{b}c::ushers"},
		{"x}", "redisson_lock__channel:{x}}", "rlock_queue:{x}}", "rlock_foreign:{x}}", "rlock_grants:{x}}:ushers"},
	} {
		k, err := redis.KeysOf(test.name, layouts[0], "client-")
		require.NoError(t, err)
		assert.Equal(t, test.name, k.Key)
		assert.Equal(t, test.channel, k.Channel())
		assert.Equal(t, test.queue, k.Queue())
		assert.Equal(t, test.foreign, k.Foreign())
		assert.Equal(t, test.ushers, k.Ushers())
		tagged := strings.TrimPrefix(test.channel, "redisson_lock__channel:")
		assert.Equal(t, "redisson_lock_queue:"+tagged, k.FairQueue())
		assert.Equal(t, "redisson_lock_timeout:"+tagged, k.FairTimes())
		assert.Equal(t, k.GrantChannels()+"client-", k.GrantChannel())
		assert.Empty(t, k.Extra())
	}
}

func TestTheLockOfAQueue(t *testing.T) {
	redis := open(t)
	for _, name := range []string{"x", "{x}", "a{b}c", "x}", "xrw", "{x}rw", "x}sem", "{x}:sem", ":", "a{b}:"} {
		for _, layout := range layouts {
			k, err := redis.KeysOf(name, layout, "")
			require.NoError(t, err)
			lock, ok := wire.LockOfQueue(k.Queue())
			assert.True(t, ok)
			assert.Equal(t, name, lock)
		}
	}
	for _, key := range []string{"", "x", "rlock_queue:", "rlock_queue:rw", "rlock_queue:x", "rlock_queue:{", "rlock_queue:}", "rlock_foreign:{x}"} {
		_, ok := wire.LockOfQueue(key)
		assert.False(t, ok, key)
	}
}

// A client may have a hundred thousand locks.
func TestTheKeysOfALockAreOneText(t *testing.T) {
	redis := open(t)
	assert.LessOrEqual(t, unsafe.Sizeof(wire.Keys{}), uintptr(64))
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = redis.KeysOf("held:12345", layouts[1], "client-") }), 1.0)
}

// For any two names and any two kinds: rlock's own keys and channels differ. Those of locks have a
// brace, and so differ from a client's own channel.
func FuzzNoTwoNamesShareAKey(f *testing.F) {
	for _, names := range [][2]string{
		{"x", "{x}"}, {"{x}", "{x}:"}, {"x", "{x}:"}, {"x}", "{x}"}, {"{x", "x"}, {"{x", "{x}"}, {"user:1", "{user:1}"},
		{"x", "x:"}, {"{{x}", "{x}"}, {"{x}rw", "x"}, {"{x}:rw", "{x}"}, {"x}:ushers", "x"}, {"x}rw", "x"}, {"x}sem", "{x}"}, {"client", "client:{"},
	} {
		f.Add(names[0], names[1])
	}
	redis := open(f)
	assert.NotContains(f, wire.ClientChannel(wire.NewID().Prefix), "{")
	f.Fuzz(func(t *testing.T, one, other string) {
		if one == other {
			t.Skip()
		}
		for _, first := range layouts {
			for _, second := range layouts {
				a, err := redis.KeysOf(one, first, "")
				if err != nil {
					t.Skip()
				}
				b, err := redis.KeysOf(other, second, "")
				if err != nil {
					t.Skip()
				}
				assert.NotEqual(t, a.Queue(), b.Queue())
				assert.NotEqual(t, a.Foreign(), b.Foreign())
				assert.NotEqual(t, a.GrantChannels(), b.GrantChannels())
				assert.Contains(t, strings.TrimPrefix(a.GrantChannels(), "rlock_grants:"), "{")
			}
		}
	})
}

// These are in the specification of the Cluster, and what CLUSTER KEYSLOT answers.
func TestTheSlotOfAKey(t *testing.T) {
	for key, slot := range map[string]uint16{
		"123456789": 0x31C3, "foo": 12182, "somekey": 11058, "{user1000}.following": 3443, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "": 0,
	} {
		assert.Equal(t, slot, wire.HashSlot(key), key)
	}
}

func TestTheNumberOfATenureIsReadFromItsOwner(t *testing.T) {
	id := wire.NewID()
	for i := range 1000 {
		number := id.Number()
		text := id.Text(number, uint64(i))
		read, ok := text.TenureNumber()
		require.True(t, ok, text)
		assert.Equal(t, number, read)
		assert.Equal(t, uint64(i), text.OwnerID())
	}
	for _, text := range []string{"", "8888", uuid.NewString() + ":1", id.Prefix + "80zz-000000000000:1", id.Prefix + "8000x000000000000:1"} {
		_, ok := wire.OwnerText(text).TenureNumber()
		assert.False(t, ok, text)
	}
}

func TestTheNumberOfPermitsIsReadFromTheTextOfAnOwner(t *testing.T) {
	id := wire.NewID()
	for _, owner := range []wire.OwnerText{id.Text(id.Number(), 7), id.Text(id.Number(), 0)} {
		assert.Equal(t, owner, owner.WithMore(0))
		assert.Equal(t, owner+"*3", owner.WithMore(2))
		for _, more := range []int32{0, 1, 9, math.MaxInt32 - 1} {
			text := owner.WithMore(more)
			read, n := text.CutMore()
			assert.Equal(t, owner, read)
			assert.Equal(t, more, n)
			assert.Equal(t, owner.IsPassed(), text.IsPassed())
			assert.True(t, text.IsOurs() && wire.IsOwner(string(text)))
			before, _ := owner.TenureNumber()
			number, ok := text.TenureNumber()
			assert.True(t, ok)
			assert.Equal(t, before, number)
		}
		for _, end := range []wire.OwnerText{"*", "*0", "*1", "*-2", "*x", "*99999999999"} {
			read, n := (owner + end).CutMore()
			assert.Equal(t, owner, read)
			assert.Zero(t, n)
		}
	}
}

// A note may have any text: neither permits, nor the field of a writer, nor the words of a message
// are read out of it, and no part of it is read as the id.
func TestANoteIsReadFromTheTextOfAnOwner(t *testing.T) {
	id := wire.NewID()
	bare := id.Text(id.Number(), 7)
	for _, text := range []string{"", "release-42", "a b+c", "7*3:write", "#~0,x", "%zz", "€\n\x00\xff", strings.Repeat("€", wire.MaxNote/3)} {
		note := wire.Note{Text: text, Line: text[:min(len(text), wire.MaxLine)], At: time.UnixMilli(1764367000123)}
		for _, note.Waits = range []bool{false, true} {
			noted := bare.WithNote(note)
			for _, whole := range []wire.OwnerText{noted, noted.WithMore(2), wire.OwnerText(noted.WriteField())} {
				assert.NotContains(t, whole, " ")
				assert.Equal(t, bare.Tenure(), whole.Tenure())
				assert.False(t, whole.IsPassed())
				assert.True(t, whole.IsOurs() && wire.IsOwner(string(whole)))
				owner, writes := whole.CutWrite()
				assert.EqualValues(t, 7, owner.OwnerID())
				owner, more := owner.CutMore()
				assert.Equal(t, strings.HasSuffix(string(whole), ":write"), writes)
				assert.Equal(t, strings.HasSuffix(string(whole), "*3"), more == 2)
				assert.Equal(t, noted, owner)
				owner, read := whole.CutNote()
				assert.Equal(t, note, read)
				assert.Equal(t, strings.Replace(string(whole), string(noted), string(bare), 1), string(owner))
			}
		}
	}
	for _, text := range []wire.OwnerText{bare, bare + "*3", "", "#", "a#1,b", wire.OwnerText(uuid.NewString() + ":1#1,b")} {
		owner, note := text.CutNote()
		assert.Equal(t, text, owner)
		assert.Zero(t, note)
	}
	for odd, want := range map[wire.OwnerText]wire.Note{"#": {}, "#x": {}, "#~": {Waits: true}, "#5,%zz": {Text: "%zz", At: time.UnixMilli(5)}, "#5@a": {Line: "a", At: time.UnixMilli(5)}} {
		owner, note := (bare + odd).CutNote()
		assert.Equal(t, bare, owner)
		assert.Equal(t, want, note)
	}
}

func TestANoteIsCutOffAtARune(t *testing.T) {
	for text, want := range map[string]int{
		strings.Repeat("a", wire.MaxNote): wire.MaxNote, strings.Repeat("a", 5000): wire.MaxNote,
		strings.Repeat("€", 5000): wire.MaxNote - 1, "a" + strings.Repeat("€", 5000): wire.MaxNote, strings.Repeat("\x80", 5000): wire.MaxNote - 4, "": 0,
	} {
		assert.Len(t, wire.Short(text, wire.MaxNote), want)
	}
}

// The tenures of a client do not reveal the next one, nor earlier ones, and no two are the same.
func TestTheUUIDsOfTenuresCannotBeGuessed(t *testing.T) {
	id := wire.NewID()
	number := func(owner string) *big.Int {
		n, ok := new(big.Int).SetString(strings.ReplaceAll(owner[wire.ClientLen:wire.TenureLen-1], "-", ""), 16)
		require.True(t, ok, owner)
		return n
	}
	const tenures = 10_000
	last, seen, steps, bits := number(id.Owner(1)), make(map[string]bool), make(map[string]bool), make([]int, 62)
	for range tenures {
		n := number(id.Owner(1))
		seen[n.String()], steps[new(big.Int).Sub(n, last).String()] = true, true
		for i := range bits {
			bits[i] += int(n.Bit(i))
		}
		last = n
	}
	assert.Len(t, seen, tenures)
	assert.Len(t, steps, tenures, "no step from one to the next comes twice")
	for i, ones := range bits {
		assert.InDelta(t, tenures/2, ones, 6*tenures/2/100, "bit %d", i) // six standard deviations
	}
	assert.NotEqual(t, wire.NewID().Owner(1)[wire.ClientLen:], wire.NewID().Owner(1)[wire.ClientLen:], "each client has numbers of its own")
}

func TestTheNodesOfACluster(t *testing.T) {
	redis := openAt(t, redistest.Cluster(t))
	t.Run("each slot of a range belongs to its node", func(t *testing.T) {
		ranges, err := redis.Client.Do(t.Context(), redis.Client.B().ClusterSlots().Build()).ToArray()
		require.NoError(t, err)
		nodes := make(map[uint32]bool)
		for _, r := range ranges {
			fields, err := r.ToArray()
			require.NoError(t, err)
			first, _ := fields[0].AsInt64()
			last, _ := fields[1].AsInt64()
			node := redis.Nodes.NodeOf(uint16(first))
			assert.Equal(t, node, redis.Nodes.NodeOf(uint16(last)), "%d to %d", first, last)
			nodes[node] = true
		}
		assert.Len(t, nodes, 3)
	})
	t.Run("a command that finds no node has the topology read again", func(t *testing.T) {
		keys, node := keysOf(t, redis, "lock", wire.Plain.Layout), redis.Nodes.NodeOf(0)
		redis.Nodes.ForgetAddresses()
		require.Eventually(t, func() bool {
			x := leave(&keys, wire.NewID().Owner(1))
			redis.DoReplicated(t.Context(), x)
			return x.Answer.Err == nil
		}, redistest.Hang, 10*time.Millisecond)
		assert.Equal(t, node, redis.Nodes.NodeOf(0), "it has its number, and so its limits, as before")
	})
}

// The server is asked for scripts of Redisson at the first contended lock, and then no sooner than
// the answer counts.
func TestTheServerIsAskedForRedissonOnceInAWhile(t *testing.T) {
	redis, now := open(t), time.Now()
	sent := redis.Commands()
	for _, after := range []time.Duration{0, time.Second, 3 * time.Second, 4 * time.Second, 6 * time.Second} {
		redis.LookForRedisson(now.Add(after))
	}
	redis.Stop()
	redis.Close() // when the questions have ended
	assert.EqualValues(t, 3, redis.Commands()-sent)
}

// The server has a script of Redisson, and then, when it was restarted, none: each answer counts
// until the next question, and one without a number not at all.
func TestClientsOfRedissonAreExpectedWhereTheServerHasTheirScripts(t *testing.T) {
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		server, says := inmemory.New(), ""
		t.Cleanup(server.Close)
		between, option := network.New(server.Dial), server.Options()
		option.DialCtxFn = between.Dial
		redis := connect(t, wire.Options{Redis: option}, wire.NewID().Prefix)
		between.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Reply && f.Is("SCRIPT") {
				return network.Replace(says)
			}
			return network.Pass
		})
		for _, answer := range []struct {
			says  string
			polls bool
		}{
			{"*3\r\n:0\r\n:0\r\n:0\r\n", false}, {"*3\r\n:0\r\n:1\r\n:0\r\n", true}, {"-ERR no\r\n", true},
			{"*3\r\n:0\r\n:0\r\n:0\r\n", false},
		} {
			says = answer.says
			redis.LookForRedisson(time.Now())
			synctest.Wait()
			assert.Equal(t, answer.polls, redis.Polls(), answer.says)
			time.Sleep(time.Minute)
		}
	})
}
