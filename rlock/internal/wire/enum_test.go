package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/enum/enumcheck"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestEachValueOfAnEnumHasAName(t *testing.T) {
	faults, err := enumcheck.Names(".", map[string]func(n int) string{
		"RedissonPolls": enumcheck.Name[wire.RedissonPolls],
		"PubSub":        enumcheck.Name[wire.PubSub],
		"Fault":         enumcheck.Name[wire.Fault],
		"Position":      enumcheck.Name[wire.Position],
	})
	require.NoError(t, err)
	assert.Empty(t, faults)
}
