package wire_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestEachTenureHasAUUIDOfVersion8ThatBeginsWithItsClient(t *testing.T) {
	id := wire.NewID()
	require.Len(t, id.Prefix, wire.ClientLen)
	seen := make(map[string]bool)
	for i := range 1000 {
		lingers := i%2 == 0
		owner := id.Owner(42, lingers)
		assert.Equal(t, lingers, wire.Lingers(owner))
		text, number := owner[:wire.TenureLen-1], owner[wire.TenureLen:]
		parsed, err := uuid.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, uuid.Version(8), parsed.Version())
		assert.Equal(t, uuid.RFC4122, parsed.Variant())
		assert.Equal(t, id.Prefix, owner[:wire.ClientLen])
		assert.Equal(t, "42", number)
		assert.False(t, seen[text])
		seen[text] = true
	}
}

func TestAnOwnerOfRedissonIsNotOurs(t *testing.T) {
	assert.True(t, wire.IsOurs(wire.NewID().Owner(1, false)))
	assert.False(t, wire.IsOurs(uuid.NewString()+":1"))
	assert.False(t, wire.IsOurs(""))
	assert.False(t, wire.IsOurs("8888"))
	assert.False(t, wire.Lingers("4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:1"))
	assert.False(t, wire.Lingers("8888"))
}
