package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	boldNamed    = regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*`)
	headingNamed = regexp.MustCompile(`(?m)^## (.+)$`)
	storyNamed   = regexp.MustCompile(`\b([\w/]+/)?\w+\.txt\b`)
	titleNamed   = regexp.MustCompile(`\bstories/(\w+\.txt) "([^"]+)"`)
)

// TestEachPromiseHasTests holds the list in rlock/tests/promises_test.go against
// docs/guarantees.md: an entry for each promise of the section Guarantees and for each section
// after it, in their order. TestNamesExist checks the names of tests.
func TestEachPromiseHasTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	require.NoError(t, err)
	conditions, after, found := strings.Cut(string(page), "\n## Guarantees\n")
	require.True(t, found)
	promises, after, found := strings.Cut(after, "\n## Limits\n")
	require.True(t, found)

	var want []string
	for _, promise := range []string{"At most one client is granted a name at a time", "a hold's context ends before Redis can grant the name to another client"} {
		assert.Contains(t, strings.Join(strings.Fields(conditions), " "), promise)
		want = append(want, strings.ToUpper(promise[:1])+promise[1:]+".")
	}
	for _, m := range boldNamed.FindAllStringSubmatch(promises, -1) {
		want = append(want, strings.ReplaceAll(strings.Join(strings.Fields(m[1]), " "), "`", ""))
	}
	for _, m := range headingNamed.FindAllStringSubmatch(after, -1) {
		want = append(want, m[1])
	}

	have := repository(t)
	var listed []string
	entries := strings.Split(strings.TrimSpace(have.comments["rlock/tests/promises_test.go"]), "\n\n")
	for _, entry := range entries[1:] { // the first is about the list
		promise, tests, _ := strings.Cut(entry, "\n")
		tests = strings.Join(strings.Fields(tests), " ")
		listed = append(listed, promise)
		assert.Regexp(t, `Test[A-Z]|\.txt`, tests, "the tests of %q", promise)
		for _, name := range storyNamed.FindAllString(tests, -1) {
			dir, file := filepath.Split(name)
			dir = strings.TrimSuffix(strings.TrimSuffix(dir, "/"), "/testdata")
			assert.True(t, have.hasFile(dir+"/testdata/"+file), "there is no %s", name)
		}
		for _, m := range titleNamed.FindAllStringSubmatch(tests, -1) {
			stories, err := os.ReadFile(filepath.Join(root, "rlock", "tests", "stories", "testdata", m[1]))
			require.NoError(t, err)
			assert.Contains(t, string(stories), "# "+m[2], "the stories of %s", m[1])
		}
	}
	assert.Equal(t, want, listed, "rlock/tests/promises_test.go and docs/guarantees.md")
}
