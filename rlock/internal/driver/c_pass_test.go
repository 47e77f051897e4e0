package driver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

func TestAPassIsReadAsItWasWritten(t *testing.T) {
	owner := "01234567-89ab-8def-8123-456789abcdef:0"
	for _, p := range []Pass{
		{Kind: PlainKind, Owner: owner, Key: "lock:orders:42"},
		{Kind: FencedKind, Owner: owner, Token: 1<<64 - 1, Key: "a name with spaces"},
		{Kind: ReadWriteKind, Shared: true, Owner: owner, Key: " \n\xff"},
		{Kind: SemaphoreKind, Permits: 3, Owner: owner, Key: strings.Repeat("x", 64<<10)},
	} {
		text := p.String()
		assert.Regexp(t, "^[A-Za-z0-9_-]+$", text)
		got, err := ParsePass(text)
		require.NoError(t, err)
		assert.Equal(t, p, got)
	}
	for _, p := range []Pass{
		{Kind: KindCount, Owner: owner, Key: "x"}, {Kind: PlainKind, Shared: true, Owner: owner, Key: "x"},
		{Owner: strings.TrimSuffix(owner, "0") + "5", Key: "x"}, {Owner: "unknown", Key: "x"},
	} {
		_, err := ParsePass(p.String())
		assert.ErrorIs(t, err, terms.ErrInvalidPass)
	}
}
