package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAClientsOwnChannelIsNoLocksChannel(t *testing.T) {
	redis, err := wire.Open(wire.Options{Redis: redistest.Embedded(t).Options()}, "")
	require.NoError(t, err)
	defer redis.Close()
	defer redis.Stop()
	id := wire.NewID().Prefix
	own := wire.ClientChannel(id)
	for _, name := range []string{"client", "client:", "client:" + id, "client:{", "{client:", "{client:}", id} {
		for _, suffix := range []string{"", "rw", "sem", ":"} {
			keys, err := redis.KeysOf(name, wire.Layout{Suffix: suffix}, "")
			require.NoError(t, err)
			for _, channel := range []string{keys.GrantChannels() + id, keys.Ushers()} {
				assert.NotEqual(t, own, channel)
				assert.Contains(t, strings.TrimPrefix(channel, "rlock_grants:"), "{", "channels of locks have a brace, which %q lacks", name)
			}
		}
	}
	assert.NotContains(t, own, "{")
	assert.NotEqual(t, own, wire.ClientChannel(wire.NewID().Prefix))
}

func TestAMessageToAClientIsReadAsItWasWritten(t *testing.T) {
	owner := wire.NewID().Owner(7)
	for _, name := range []string{"orders:42", "two words", " ", "line\nend\r\n", "\x00\xff"} {
		m := wire.ClientMessage{Verb: "f", Owner: owner, Text: name}
		read, ok := wire.ParseClientMessage(m.String())
		require.True(t, ok)
		assert.Equal(t, m, read)
	}
	for _, garbage := range []string{"", " ", "f", "f " + owner, "f " + owner + " ", "f 7 orders", "z " + owner + " orders", "ff " + owner + " orders", " " + owner + " orders", owner + " orders"} {
		_, ok := wire.ParseClientMessage(garbage)
		assert.False(t, ok, "%q", garbage)
	}
}

// Any message is refused, or formats to itself again, with an owner that can be compared with
// that of a tenure.
func FuzzParseClientMessage(f *testing.F) {
	f.Add("f " + wire.NewID().Owner(1) + " orders:42")
	f.Add("f  ")
	f.Add("+" + wire.NewID().Owner(1) + " 1 1 orders")
	f.Fuzz(func(t *testing.T, message string) {
		m, ok := wire.ParseClientMessage(message)
		if !ok {
			assert.Zero(t, m)
			return
		}
		assert.Equal(t, message, m.String())
		assert.GreaterOrEqual(t, len(m.Owner), wire.TenureLen)
		assert.NotContains(t, string(m.Verb)+m.Owner, " ")
		assert.NotEmpty(t, m.Text)
	})
}
