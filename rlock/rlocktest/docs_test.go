package rlocktest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/readme"
)

func TestTheTestsThatTheDocumentShowsAreRunHere(t *testing.T) {
	page, err := os.ReadFile("../../docs/testing.md")
	require.NoError(t, err)
	blocks, err := readme.Blocks(string(page))
	require.NoError(t, err)
	require.Len(t, blocks, 1)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(text)
	}
	for _, b := range blocks {
		assert.Contains(t, tests.String(), b.Text)
		assert.Less(t, strings.Count(b.Text, "\n"), 50, "lines of the test in line %d", b.Line)
	}
}
