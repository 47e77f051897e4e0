package client_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/enum/enumcheck"
	"github.com/go-rlock/rlock/rlock/internal/client"
)

func TestEachValueOfAnEnumHasAName(t *testing.T) {
	faults, err := enumcheck.Names(".", map[string]func(n int) string{
		"KindID": enumcheck.Name[client.KindID],
	})
	require.NoError(t, err)
	assert.Empty(t, faults)
}
