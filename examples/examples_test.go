package examples_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// limit is for an example that hangs: by itself it ends within ten seconds, on a
// machine that has time for it.
const limit = 3 * time.Minute

// claims has a line that each example prints when all went as its story says.
var claims = map[string]string{
	"quickstart":  "ok   a dead holder's lock was free again",
	"gear":        "machine A is refused, and begins again",
	"balance":     "finds that the balance is too small\n   => the balance is 30",
	"flashsale":   "guarded     100        0",
	"longwork":    "worker 2   still has the lock: true",
	"fenced":      "=> the balance is 180, as it should be: the stale write was refused",
	"nested":      "charge(42) holds the lock 3 times",
	"migrate":     "lock.unlockAsync(threadId)",
	"tick":        "3 ticks, 5 replicas: the job ran once per tick",
	"leader":      "stops: the lock was lost",
	"handler":     "a request that lost the lock: 500 Internal Server Error",
	"passed":      "and the order is processed, by one worker at a time",
	"gocron":      "3 schedulers, and the job ran once per interval",
	"ratelimited": "40 workers made 800 calls over at most 10 connections",
	"observed":    "and so have the metrics",
	"sticky":      "more than nine of ten requests needed no command",
	"shutdown":    "both locks are free",
}

func TestEachExampleProvesItsClaims(t *testing.T) {
	t.Setenv("REDIS_ADDR", "") // the server in memory, whatever else is running
	programs := build(t)
	for name, line := range claims {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a server of its own, and waits most of the time
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			output, err := exec.CommandContext(ctx, filepath.Join(programs, name)).CombinedOutput()
			require.NoError(t, err, "%s", output)
			assert.Contains(t, string(output), line)
		})
	}
}

func TestEveryExampleIsTested(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	for _, main := range mains {
		assert.Contains(t, claims, filepath.Dir(main))
	}
	assert.Len(t, mains, len(claims))
}

// build compiles all the examples at once and returns the folder with their
// programs. They are built as the test is, with the race detector or without; but
// modules of their own always without, since it takes a minute to build a database
// with it.
func build(t *testing.T) string {
	t.Helper()
	folder := t.TempDir() + string(filepath.Separator)
	arguments := []string{"build", "-o", folder}
	if redistest.UnderRace {
		arguments = append(arguments, "-race")
	}
	output, err := exec.Command("go", append(arguments, "./...")...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	modules, err := filepath.Glob("*/go.mod")
	require.NoError(t, err)
	for _, module := range modules {
		output, err := exec.Command("go", "build", "-C", filepath.Dir(module), "-o", folder, ".").CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	return folder
}
