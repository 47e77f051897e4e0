package internal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// takenApart matches code that takes a variable or a field apart which has the text of an owner, a field of a hash, or
// a member of a queue or a semaphore, also behind a conversion.
var takenApart = regexp.MustCompile(`(?i)strings\.(Cut|HasPrefix|HasSuffix|Index|LastIndex|Split|Trim|Fields)\w*\((\w+\()?(\w+\.)*(owner|holder|ticket|tenure|member|passed|shown)(text)?\b` +
	`|\b(owner|holder|ticket|tenure|member|passed|shown)(text)?\)?\[|\[(\w*:)?(19|36|37)\]|\[(19|36|37):|":write"`)

// No other code of Go than wire/owner.go slices or scans the text of an owner: package wire has [wire.OwnerText]. Three
// functions look at the beginning of such a text, for people, and take no part out.
func TestOneFileTakesTheTextOfAnOwnerApart(t *testing.T) {
	var found []string
	for _, root := range []string{"rlock", "cmd/rlock"} {
		require.NoError(t, filepath.WalkDir("../../"+root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "wire/owner.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				if code, _, _ := strings.Cut(line, "//"); takenApart.MatchString(code) {
					found = append(found, strings.TrimPrefix(filepath.ToSlash(path), "../../")+": "+strings.TrimSpace(line))
				}
			}
			return err
		}))
	}
	slices.Sort(found)
	assert.Equal(t, []string{
		`cmd/rlock/internal/cli/unlock.go: return view.Owner(owner, p, false) == id || len(id) >= shortestOwner && strings.HasPrefix(owner, id)`,
		`cmd/rlock/internal/view/table.go: first, _, _ := strings.Cut(owner, "-")`,
		`rlock/rlockweb/view.go: first, _, _ := strings.Cut(owner, "-")`,
	}, found)
}

// cut matches a call that takes a text apart in a script, its text, and the rest of its arguments.
var cut = regexp.MustCompile(`string\.(sub|find|match|gsub)\(([\w.]+(?:\[[^\]]*\])?), ([^()]+|'[^']*')\)`)

// The scripts have the pattern and the cuts of an owner's text once: in owners.lua, tenures.lua and
// permits.lua. swift.lua, which comes before any function, has copies of them, and no others.
func TestOneFileOfTheScriptsTakesTheTextOfAnOwnerApart(t *testing.T) {
	const folder = "wire/scripts/"
	read := func(name string) string {
		text, err := os.ReadFile(folder + name)
		require.NoError(t, err)
		return string(text)
	}
	calls := func(script string) (all []string) {
		for _, found := range cut.FindAllStringSubmatch(script, -1) {
			all = append(all, found[1]+" "+found[3])
		}
		return all
	}
	tenures := calls(read("tenures.lua"))
	require.Equal(t, []string{"sub 1, 37", "sub 38, 38", "sub 1, 36", "sub 1, 19", "sub -6", "match '@[^,*]+'", "sub 2"}, tenures)

	pattern := regexp.MustCompile(`local ourOwner = ('.*')`).FindStringSubmatch(read("owners.lua"))
	require.NotNil(t, pattern)
	var first, last int
	_, err := fmt.Sscanf(tenures[3], "sub %d, %d", &first, &last)
	require.NoError(t, err)
	clientOfMember := fmt.Sprintf("sub %d, %d", first+1, last+1)
	known := append(tenures, "find "+pattern[1], clientOfMember,
		"sub 1, 1",          // the letter of a member
		"find '@', 1, true", // the beginning of a line
		"sub 13")            // the tag in the name of the queue
	swift := calls(read("swift.lua"))
	for _, call := range swift {
		assert.Contains(t, known, call, "swift.lua")
	}
	assert.Contains(t, swift, "find "+pattern[1])
	assert.Contains(t, swift, clientOfMember)
	assert.Contains(t, swift, tenures[2])

	files, err := filepath.Glob(folder + "*.lua")
	require.NoError(t, err)
	for _, file := range files {
		name := filepath.Base(file)
		if slices.Contains([]string{"owners.lua", "tenures.lua", "permits.lua", "swift.lua"}, name) {
			continue
		}
		for _, call := range calls(read(name)) {
			if call != "sub 2" { // also the lease behind a "="
				assert.NotContains(t, tenures, call, name)
			}
			assert.NotRegexp(t, `\b(19|20|3[678])\b|%d|\*`, strings.TrimPrefix(call, "find ':%-?%d'"), name)
		}
	}
}
