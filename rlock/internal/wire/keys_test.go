package wire_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

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

// A client may have a hundred thousand locks.
func TestTheKeysOfALockAreOneText(t *testing.T) {
	redis := open(t)
	assert.LessOrEqual(t, unsafe.Sizeof(wire.Keys{}), uintptr(64))
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = redis.KeysOf("held:12345", layouts[1], "client-") }), 1.0)
}

// For any two names and any two kinds: rlock's own keys and channels differ.
func FuzzNoTwoNamesShareAKey(f *testing.F) {
	for _, names := range [][2]string{
		{"x", "{x}"}, {"{x}", "{x}:"}, {"x", "{x}:"}, {"x}", "{x}"}, {"{x", "x"}, {"{x", "{x}"}, {"user:1", "{user:1}"},
		{"x", "x:"}, {"{{x}", "{x}"}, {"{x}rw", "x"}, {"{x}:rw", "{x}"}, {"x}:ushers", "x"}, {"x}rw", "x"}, {"x}sem", "{x}"},
	} {
		f.Add(names[0], names[1])
	}
	redis := open(f)
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
