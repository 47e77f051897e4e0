package group

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The package knows how locks are used, and not how one is kept.
func TestThePackageKnowsNoEngine(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); strings.Contains(path, "/rlock/rlock/internal/") {
				assert.Contains(t, []string{"task", "terms", "wire"}, path[strings.LastIndex(path, "/")+1:], name)
			}
		}
	}
}
