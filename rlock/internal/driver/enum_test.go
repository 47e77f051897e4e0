package driver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/enum/enumcheck"
)

func TestEachStateHasAName(t *testing.T) {
	faults, err := enumcheck.Names(".", map[string]func(n int) string{
		"KindID":    enumcheck.Name[KindID],
		"sender":    enumcheck.Name[sender],
		"stage":     enumcheck.Name[stage],
		"wakeUp":    enumcheck.Name[wakeUp],
		"writeFate": enumcheck.Name[writeFate],
		"tracking":  enumcheck.Name[tracking],
	})
	require.NoError(t, err)
	assert.Empty(t, faults)
}
