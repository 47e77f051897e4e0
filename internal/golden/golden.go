// Package golden runs tests whose input and expected output stand together in a file of testdata.
// Only tests import it. A [Case] is the language of traces and stories, and [Steps] that of output
// with several lines. This writes the present output into the files:
//
//	go test ./rlock/internal/core -run Traces -rewrite
//
// Review the difference as you would an assertion.
package golden

import (
	"cmp"
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

// A Case is a paragraph of a file of testdata: comments, of which the first is its title, and
// commands with what they bring about.
//
//	# Readers join a reader, and the next writer waits for them.
//	lock a read; answer holds               => sends acquire 0.1 shared
//	                                        => a: acquired from Redis
//	lock b read                             => b: acquired beside readers
//
// What a command brings about stands behind "=>", a line each. Commands that bring nothing about may
// stand before the next one, with "; " between them. Outcomes at the end of the case stand below the last
// command.
type Case struct {
	Text string
	told string // the text with the present outcome
}

// Cases runs a sub-test for each case of each file testdata/*.txt. Cases are independent, and those
// of different files run in parallel if parallel is set.
func Cases(t *testing.T, parallel bool, run func(t *testing.T, c *Case)) {
	t.Helper()
	Files(t, func(t *testing.T, file, text string) {
		if parallel && !*Rewrite {
			t.Parallel()
		}
		var cases []*Case
		for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			c := &Case{Text: paragraph}
			title, _, _ := strings.Cut(paragraph, "\n")
			require.True(t, strings.HasPrefix(title, "# "), "a case has a title: %s", paragraph)
			t.Run(title[2:], func(t *testing.T) { run(t, c) })
			cases = append(cases, c)
		}
		t.Cleanup(func() { // when those that run in parallel have ended
			var told []string
			for _, c := range cases {
				told = append(told, cmp.Or(c.told, c.Text))
			}
			if *Rewrite {
				assert.NoError(t, os.WriteFile(file, []byte(strings.Join(told, "\n\n")+"\n"), 0o644))
			}
		})
	})
}

// First returns the first command of the case.
func (c *Case) First() string {
	for line := range strings.SplitSeq(c.Text, "\n") {
		if line[0] != '#' {
			return commandsOf(line)
		}
	}
	return ""
}

// Tell executes the case, and asserts that its outcome is the present one, or makes it that if
// -rewrite is set. The function do executes a command, and returns its outcome; at the end it is
// asked once more, for the command "".
func (c *Case) Tell(t *testing.T, do func(command string) (outcome []string)) {
	t.Helper()
	var lines []string
	silent := "" // commands that have brought nothing about
	perform := func(command string) {
		silent = strings.TrimPrefix(silent+"; "+command, "; ")
		for _, outcome := range do(command) {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%-39s => %s", silent, outcome), " "))
			silent = ""
		}
	}
	rest := func() {
		if silent != "" {
			lines, silent = append(lines, silent), ""
		}
	}
	for line := range strings.SplitSeq(c.Text, "\n") {
		if line[0] == '#' {
			lines = append(lines, line)
			continue
		}
		for command := range strings.SplitSeq(commandsOf(line), "; ") {
			if command != "" {
				perform(command)
			}
		}
		rest()
	}
	perform("")
	told := strings.Join(lines, "\n")
	if *Rewrite && c.told == "" {
		c.told = told
		return
	}
	assert.Equal(t, cmp.Or(c.told, c.Text), told)
}

// commandsOf returns the commands of a line, "" if it has an outcome alone.
func commandsOf(line string) string {
	commands, _, _ := strings.Cut(" "+line, " => ")
	return strings.TrimSpace(commands)
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
