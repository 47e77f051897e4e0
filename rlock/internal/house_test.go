// Package internal_test checks the order of the packages in this folder.
package internal_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// below has, for each package, those of this folder that it may import.
var below = map[string][]string{
	"driver":     {"core", "background", "contract", "wire"},
	"core":       {}, // machines without I/O
	"explore":    {"core", "explore/server"},
	"composite":  {"background", "contract", "wire"}, // it knows how locks are used, and not how one is kept
	"monitor":    {"background", "contract", "wire"}, // it reads locks by a Source
	"contract":   {},
	"background": {},
	"testbed":    {"driver", "contract", "wire"}, // for tests: none of these imports it
	"wire":       {"core"},                       // whose commands it carries
}

func TestAPackageImportsOnlyThoseBelowIt(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() {
			assert.Contains(t, below, entry.Name())
		}
	}
	for name, allowed := range below {
		files, err := filepath.Glob(name + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				_, path, ok := strings.Cut(strings.Trim(spec.Path.Value, `"`), "/rlock/rlock/internal/")
				if ok {
					assert.Contains(t, allowed, path, file)
				}
			}
		}
	}
}
