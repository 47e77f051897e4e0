package driver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each of these states of a tenure is written in one file.
func TestEachStateIsWrittenInOneFile(t *testing.T) {
	home := map[string]string{
		"alarm": "keep.go", "sender": "keep.go", "queued": "keep.go", "text": "keep.go", "parted": "keep.go",
		"tracking": "tracking.go", "verifiedAt": "tracking.go",
	}
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	written := make(map[string]bool)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || assign.Tok == token.DEFINE {
				return true
			}
			for _, e := range assign.Lhs {
				field, ok := e.(*ast.SelectorExpr)
				if !ok || home[field.Sel.Name] == "" {
					continue
				}
				if of, ok := field.X.(*ast.Ident); ok && of.Name == "k" { // a work
					written[field.Sel.Name] = true
					assert.Equal(t, home[field.Sel.Name], name, "%s is written", field.Sel.Name)
				}
			}
			return true
		})
	}
	assert.Len(t, written, len(home))
}
