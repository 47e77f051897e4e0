package main

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
)

// The test binary is a process of the fleet too, as the command is.
func TestMain(m *testing.M) {
	beMember()
	redistest.Main(m)
}

func TestBothLanguagesTakeTurns(t *testing.T) {
	redistest.Standalone(t) // or skip
	if runtime.GOOS != "linux" {
		t.Skip("each process has a loopback address of its own")
	}
	if _, err := redisson.Command(redisson.V4, "rlock.Driver"); errors.Is(err, redisson.ErrNoJava) && os.Getenv("RLOCK_REQUIRE_JAVA") != "1" {
		t.Skipf("%v; CI fails on this skip", err)
	}
	o, err := parse([]string{"-redisson", string(redisson.V4), "-faults", "4", "-turns", "100", "-slack", "1m", "-seed", "1"})
	require.NoError(t, err)
	stage := &redistest.Program{}
	defer stage.Close()
	violations, err := runAll(stage, o, t.Output())
	require.NoError(t, err)
	assert.Zero(t, violations)
}

func TestTheFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"-kinds", "lock"}, {"-turns", "many"}, {"-nothing"}} {
		_, err := parse(args)
		require.Error(t, err, strings.Join(args, " "))
		require.NotErrorIs(t, err, flag.ErrHelp)
	}
}
