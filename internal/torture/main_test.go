package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

// The test binary is a worker too, as the command is.
func TestMain(m *testing.M) {
	worker.Main()
	redistest.Main(m)
}

func TestAShortRunFindsNothingAndLeavesNothing(t *testing.T) {
	redistest.Standalone(t) // or skip
	t.Chdir(t.TempDir())
	const out = "out" // relative to the working directory
	o, err := parse([]string{"-seed", "1", "-duration", "1s", "-topology", "standalone", "-faults", "script-flush,client-kill", "-processes", "2", "-names", "50", "-out", out})
	require.NoError(t, err)
	violations, err := run(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, violations)
	require.FileExists(t, filepath.Join(out, "torture.md"))
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, left, 1, "no history of an act without a violation")
}

func TestARunThatIsInterruptedHealsAndReports(t *testing.T) {
	redistest.Standalone(t) // or skip
	out := t.TempDir()
	o, err := parse([]string{"-duration", "1h", "-topology", "standalone", "-faults", "pause-server", "-processes", "1", "-names", "20", "-out", out})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // interrupts it when something is broken
		defer cancel()
		for ctx.Err() == nil {
			noted, _ := os.ReadFile(filepath.Join(out, "act-0", "history", "torture"))
			if strings.Contains(string(noted), string(history.Injected)) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	violations, err := run(ctx, o)
	require.NoError(t, err)
	require.Zero(t, violations)
	text, err := os.ReadFile(filepath.Join(out, "torture.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "ended early")
}

func TestTheCommandOfARunRepeatsItsOptions(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"-seed", "9", "-duration", "30m", "-topology", "cluster,aof", "-faults", "flushall,del", "-processes", "2", "-names", "0", "-lease", "3s"},
	} {
		o, err := parse(args)
		require.NoError(t, err)
		require.NotZero(t, o.seed)
		again, err := parse(o.args())
		require.NoError(t, err)
		require.Equal(t, o, again)
	}
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-topology", "ring"}, {"-faults", "earthquake"}, {"-faults", "move-slot", "-topology", "aof"},
		{"-processes", "0"}, {"-names", "-1"}, {"-names", "10001"}, {"cluster"},
	} {
		_, err := parse(args)
		require.Error(t, err, "%v", args)
		require.NotErrorIs(t, err, flag.ErrHelp)
	}
	o, err := parse([]string{"-faults", "move-slot", "-topology", "cluster"})
	require.NoError(t, err)
	require.Equal(t, []stage.Topology{stage.Cluster}, o.topologies)
}
