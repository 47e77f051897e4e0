//go:build !strict

package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// An error names the line of the user's source, and flags stay the first line.
func TestAGuardAddsNoLine(t *testing.T) {
	for _, g := range []*Guard{plainGuard, readWriteGuard, semaphoreGuard} {
		before, _, _ := strings.Cut(g.Script("local x = 1\nreturn x -- no comment").text, "return x -- no comment\nend) ")
		assert.Equal(t, 1, strings.Count(before, "\n"))
		assert.True(t, strings.HasPrefix(g.Script("#!lua flags=no-writes\nreturn 1").text, "#!lua flags=no-writes\ndo "))
		assert.NotContains(t, g.looks, "--")
	}
}

func TestAGuardForgetsSources(t *testing.T) {
	g := newGuard("guard")
	first := g.Script("return 0")
	for i := range 3 * mostSources {
		g.Script(fmt.Sprint("return ", i))
	}
	assert.LessOrEqual(t, len(g.scripts), mostSources)
	assert.Equal(t, first.sha, g.Script("return 0").sha)
}

// No two locks have the same key beside them, and each has it in its slot.
func TestTheKeysBesideTwoLocksDiffer(t *testing.T) {
	of := map[string]string{}
	for _, key := range []string{"x", "{x}", "{x}:", "{{x}}", "{x}y", "y{x}", "{x}:y", "x}", "}x", "{", "{}", "{}x", "x{}", "{x", "x:", ":x", "{x}:once", "x}:{x"} {
		for _, name := range []string{"once", "began", "note"} {
			beside := Beside(key, name)
			assert.Empty(t, of[beside], "%q", beside)
			of[beside] = key
			r := &Redis{cluster: true}
			if _, err := r.KeysOf(key, Layout{}, ""); err == nil { // it can be in a Cluster
				assert.Equal(t, HashSlot(key), HashSlot(beside), "%q", beside)
			}
		}
	}
}
