package examples_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/examples/internal/story"
	"github.com/go-rlock/rlock/internal/redistest"
)

// claims has a line that each example prints when all went as its story says. An example that is a
// module of its own has a test of its own, main_test.go.
var claims = map[string]string{
	"quickstart": "ok   a dead holder's lock was free again",
	"gear":       "machine A is refused, and begins again",
}

// brief is the example that -short runs: to build and to run all of them takes more processor time than
// the tests of most packages.
const brief = "quickstart"

func TestEachExampleProvesItsClaims(t *testing.T) {
	var arguments []string
	if redistest.UnderRace {
		arguments = []string{"-race"}
	}
	chosen := maps.Clone(claims)
	if testing.Short() {
		maps.DeleteFunc(chosen, func(name, _ string) bool { return name != brief })
	}
	for name := range chosen {
		arguments = append(arguments, "./"+name)
	}
	programs := story.Build(t, arguments...)
	for name, line := range chosen {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story.Run(t, filepath.Join(programs, name), line)
		})
	}
}

func TestEveryExampleIsTested(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	tests := len(claims)
	for _, main := range mains {
		folder := filepath.Dir(main)
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			assert.FileExists(t, filepath.Join(folder, "main_test.go"))
			tests++
			continue
		}
		assert.Contains(t, claims, folder)
	}
	assert.Len(t, mains, tests)
}
