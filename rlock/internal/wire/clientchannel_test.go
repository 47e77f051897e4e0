package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAClientsOwnChannelIsNoLocksChannel(t *testing.T) {
	redis := open(t)
	id := wire.NewID().Prefix
	own := wire.ClientChannel(id)
	for _, name := range []string{"client", "client:", "client:" + id, "client:{", "{client:", "{client:}", id} {
		for _, suffix := range []string{"", "rw", "sem", ":"} {
			keys := keysOf(t, redis, name, wire.Layout{Suffix: suffix})
			for _, channel := range []string{keys.GrantChannels() + id, keys.Ushers()} {
				assert.NotEqual(t, own, channel)
				assert.Contains(t, strings.TrimPrefix(channel, "rlock_grants:"), "{", "channels of locks have a brace, which %q lacks", name)
			}
		}
	}
	assert.NotContains(t, own, "{")
	assert.NotEqual(t, own, wire.ClientChannel(wire.NewID().Prefix))
}

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
		assert.NotContains(t, string(m.Verb)+m.Owner, " ")
		assert.NotEmpty(t, m.Text)
	})
}
