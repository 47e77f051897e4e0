package driver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Each of these states of a tenure is written in one file.
func TestEachStateIsWrittenInOneFile(t *testing.T) {
	home := map[string]string{
		"alarm": "keep.go", "sender": "keep.go", "queued": "run.go", "text": "run.go", "parted": "release.go",
		"tracking": "keep.go", "verifiedAt": "keep.go",
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

// A client may hold a hundred thousand locks: what each of them needs keeps to a size of Go's
// allocator.
func TestWhatAHeldLockNeedsHasSizesOfTheAllocator(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(core.Tenure{}), uintptr(288))
	assert.LessOrEqual(t, unsafe.Sizeof(lock{}), uintptr(256))
	assert.LessOrEqual(t, unsafe.Sizeof(work{}), uintptr(192))
	assert.LessOrEqual(t, unsafe.Sizeof(Name{}), uintptr(96))
}

func init() { CheckRules(true) }
