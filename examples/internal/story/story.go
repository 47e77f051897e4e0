// Package story tests that an example proves what it claims: it runs the program, which has to
// succeed and to print the line that says so.
package story

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// limit is for an example that hangs: by itself it ends within ten seconds, on a machine that has
// time for it.
const limit = 3 * time.Minute

// Build compiles the programs that the arguments of "go build" name, and returns the folder with
// them. They have no symbols for a debugger, which would take longer than all else.
func Build(t *testing.T, arguments ...string) (folder string) {
	t.Helper()
	folder = t.TempDir() + "/"
	output, err := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", folder}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return folder
}

// Run runs a program, on a server in memory whatever else is running. It has to print the line.
func Run(t *testing.T, program, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, program)
	command.Env = append(command.Environ(), "REDIS_ADDR=")
	output, err := command.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, output)
	case !strings.Contains(string(output), line):
		t.Errorf("there is no %q in\n%s", line, output)
	}
}
