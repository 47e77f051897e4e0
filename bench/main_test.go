package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}

func TestARunMeasuresPrintsAndWrites(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	o, err := parse([]string{"-quick", "-scale", "0.5", "-addr", redistest.Standalone(t).Addr(), "-out", out,
		"-run", "uncontended,nested,one-process", "-contenders", "rlock,floor-evalsha,broken", "-net", "0.5ms"})
	require.NoError(t, err)
	var md []byte
	for range 20 { // on a busy machine a window may pass without an event
		require.NoError(t, run(t.Context(), o))
		md, err = os.ReadFile(filepath.Join(out, "results.md"))
		require.NoError(t, err)
		if strings.Contains(string(md), "OVERLAPS") {
			break
		}
	}
	assert.Contains(t, string(md), "0.5ms")
	assert.Contains(t, string(md), "OVERLAPS", "the broken lock is reported")
	assert.NotContains(t, string(md), "ended early")
	assert.FileExists(t, filepath.Join(out, "results.json"))
}

func TestInvalidFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-run", "none"}, {"-contenders", "none"}, {"-net", "none"}, {"what"}, {"-none"}} {
		_, err := parse(args)
		assert.Error(t, err, "%v", args)
	}
	_, err := parse([]string{"-help"})
	assert.ErrorIs(t, err, flag.ErrHelp)
}
