package terms_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/enum/enumcheck"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

func TestEachValueOfAnEnumHasAName(t *testing.T) {
	faults, err := enumcheck.Names(".", map[string]func(n int) string{
		"Way":        enumcheck.Name[terms.Way],
		"LossReason": enumcheck.Name[terms.LossReason],
	})
	require.NoError(t, err)
	assert.Empty(t, faults)
}
