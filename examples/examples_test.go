package examples_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Quickstart ends within ten seconds, on a machine that has time for it. It has no symbols for a debugger, which would
// take longer than all else.
func TestQuickstartProvesItsClaims(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quickstart")
	output, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./quickstart").CombinedOutput()
	require.NoError(t, err, "%s", output)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program)
	command.Env = append(command.Environ(), "REDIS_ADDR=") // a server in memory whatever else is running
	output, err = command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Contains(t, string(output), "ok   a dead holder's lock was free again")
}
