package wire_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	endInHeader   = regexp.MustCompile(`^--  (\d+) +(the kind's|\w+) `)
	endInCode     = regexp.MustCompile(`\breturn\b.* -- end (\d+)$`)
	returnInCode  = regexp.MustCompile(`\breturn\b`)
	functionBegin = regexp.MustCompile(`^(\t*)(local )?function `)
)

// The header of queue.lua has each early end of a step, in the order in which the parts of the script have them, and each return
// of a step names the end that it is, but for the last one of all.
func TestTheHeaderOfAStepHasItsEnds(t *testing.T) {
	where := make(map[string][]string) // the files of each end, as the header says
	var listed []string
	for _, line := range linesOf(t, "queue") {
		if m := endInHeader.FindStringSubmatch(line); m != nil {
			listed = append(listed, m[1])
			where[m[1]] = []string{m[2]}
			if m[2] == "the kind's" {
				where[m[1]] = []string{"plain", "rw", "semaphore"}
			}
		}
	}
	require.NotEmpty(t, listed)
	for i, number := range listed {
		assert.Equal(t, strconv.Itoa(i+1), number)
	}

	found := make(map[string][]string)
	for _, file := range []string{"plain", "swift", "rw", "semaphore", "queue", "foreign", "grant"} {
		returns := returnsOf(linesOf(t, file))
		if file == "grant" {
			last := returns[len(returns)-1]
			assert.Equal(t, "return reply", last)
			returns = returns[:len(returns)-1]
		}
		for _, line := range returns {
			m := endInCode.FindStringSubmatch(line)
			if assert.NotNil(t, m, "%s.lua: %q has no number", file, line) && !slices.Contains(found[m[1]], file) {
				found[m[1]] = append(found[m[1]], file)
			}
		}
	}
	assert.Equal(t, where, found)
}

// returnsOf returns the lines that return from the script, and not from one of its functions.
func returnsOf(lines []string) (returns []string) {
	end := "" // of the function that the line is in
	for _, line := range lines {
		code, _, _ := strings.Cut(line, "--")
		switch m := functionBegin.FindStringSubmatch(line); {
		case end != "":
			if line == end {
				end = ""
			}
		case m != nil:
			end = m[1] + "end"
		case returnInCode.MatchString(code):
			returns = append(returns, strings.TrimSpace(line))
		}
	}
	return returns
}

func linesOf(t *testing.T, script string) []string {
	t.Helper()
	text, err := os.ReadFile("scripts/" + script + ".lua")
	require.NoError(t, err)
	return strings.Split(string(text), "\n")
}
