package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/clientlease/cost"
)

func TestASimulationWritesTheSameResultsAgain(t *testing.T) {
	data, err := json.Marshal(cost.Table{
		Server: "Redis 7.0.15", MirrorAlone: 6 * time.Microsecond, Mirror32: 3 * time.Microsecond, Renew: time.Microsecond,
		Attach32: 4 * time.Microsecond, Take: 9 * time.Microsecond, Acquire: 7 * time.Microsecond, LockBytes: 150, AttachedBytes: 200, LeaseBytes: 120,
	})
	require.NoError(t, err)
	known := filepath.Join(t.TempDir(), "known.json")
	require.NoError(t, os.WriteFile(known, data, 0o600))

	var written [2]map[string]string
	for i := range written {
		folder := t.TempDir()
		require.NoError(t, run(t.Context(), []string{"-costs", known, "-out", folder, "-largest", "10000000"}))
		written[i] = read(t, folder)
	}
	assert.Equal(t, written[0], written[1])
	assert.Contains(t, written[0]["results.md"], "| 10 000 000 | one by one | 1 000 000 | 1 000 000 | 12.00 % | 1.5 GB | 0 |")
	assert.Contains(t, written[0]["commands.svg"], "10 million held locks, commands a second: rlock 33 710, client leases 5 281")
	assert.Contains(t, written[0]["redis.svg"], "of a core of each server")
}

func TestTheResultsFollowFromTheirCosts(t *testing.T) {
	committed := filepath.Join("..", "results", "clientlease")
	folder := t.TempDir()
	require.NoError(t, run(t.Context(), []string{"-costs", filepath.Join(committed, "costs.json"), "-out", folder, "-largest", "1000000"}))
	want := read(t, committed)["results.md"]
	for line := range strings.Lines(read(t, folder)["results.md"]) {
		assert.Contains(t, want, line)
	}
}

func TestMissingCostsAreAnError(t *testing.T) {
	assert.ErrorIs(t, run(t.Context(), []string{"-costs", filepath.Join(t.TempDir(), "absent.json"), "-out", t.TempDir()}), os.ErrNotExist)
}

func read(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	texts := make(map[string]string)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		require.NoError(t, err)
		texts[e.Name()] = string(text)
	}
	return texts
}
