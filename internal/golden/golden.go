// Package golden runs tests whose input and expected output stand together in a file of testdata.
// Only tests import it. This writes the present output into the files:
//
//	go test ./rlock/internal/core -run Traces -rewrite
//
// Review the difference as you would an assertion.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rewrite is the flag -rewrite.
var Rewrite = flag.Bool("rewrite", false, "write into testdata what the tests find")

// Each runs a sub-test for each file testdata/*.txt. The function run executes the input of the
// text, and returns the text with its present output. If the two texts differ, the sub-test fails,
// or writes the file if -rewrite is set.
func Each(t *testing.T, run func(t *testing.T, text string) string) {
	t.Helper()
	Files(t, func(t *testing.T, file, want string) {
		got := run(t, want)
		if *Rewrite {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			return
		}
		was, is := strings.Split(want, "\n\n"), strings.Split(got, "\n\n")
		for i := range min(len(was), len(is)) {
			assert.Equal(t, was[i], is[i])
		}
		assert.Equal(t, len(was), len(is), "paragraphs")
	})
}

// Files runs a sub-test for each file testdata/*.txt with its text. The function run compares the
// output, or writes the file if -rewrite is set.
func Files(t *testing.T, run func(t *testing.T, file, text string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			run(t, file, string(text))
		})
	}
}

// Steps executes a text of steps, one a line, and returns the text with the present output of the
// steps. The function do executes a step, writes its output to out, and reports whether there is
// any. In the text the output of a step stands below it, up to an empty line.
func Steps(text string, do func(step string, out *strings.Builder) (shows bool)) string {
	var out strings.Builder
	shown := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if shown {
			shown = line != ""
			continue
		}
		fmt.Fprintln(&out, line)
		if shown = do(line, &out); shown {
			fmt.Fprintln(&out)
		}
	}
	return strings.TrimSpace(out.String()) + "\n"
}
