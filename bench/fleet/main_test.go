package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/fleet/cost"
)

var committed = filepath.Join("..", "results", "fleet-simulation")

func TestTheResultsFollowFromTheirCosts(t *testing.T) {
	folder := t.TempDir()
	costs, err := os.ReadFile(filepath.Join(committed, "costs.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "costs.json"), costs, 0o600))
	require.NoError(t, run(t.Context(), []string{"-out", folder, "-only", "networks"}))
	for _, name := range []string{"networks.md", "results.md"} {
		want, err := os.ReadFile(filepath.Join(committed, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
}

func TestEachTableHasAFile(t *testing.T) {
	for _, table := range tables(cost.Table{}, 1, false) {
		text, err := os.ReadFile(filepath.Join(committed, table.file+".md"))
		require.NoError(t, err)
		assert.Equal(t, len(table.rows)+6, strings.Count(string(text), "\n"), table.name)
	}
}

func TestMissingCostsAreAnError(t *testing.T) {
	assert.ErrorIs(t, run(t.Context(), []string{"-out", t.TempDir()}), os.ErrNotExist)
}

func TestARealFleetStandsBesideTheSimulation(t *testing.T) {
	real := []realFleet{
		{Contender: "rlock", Network: "0.5ms", Processes: 8, Callers: 1, Section: ms, Slept: ms, RoundTrip: 500 * us, Load: "0.5 1.5", Rates: []float64{600, 640, 500}, P50: 11 * ms},
		{Contender: "redislock-5ms", Network: "0.5ms", Processes: 8, Callers: 1, Section: ms, Slept: ms, RoundTrip: 500 * us, Load: "0.7", Rates: []float64{100}, P50: 11 * ms},
	}
	text := sideBySide(real, cost.Table{}, 1)
	assert.Contains(t, text, "Of 1 rlock fleets the simulation is within 20 % of 1 rates, and of 1 medians of the wait.")
	assert.Contains(t, text, "load was 0.5 to 1.5.")
	assert.Contains(t, text, "| rlock 8 x 1, 1ms sections, 0.5ms | 500.0 µs | 1ms | 600 (500 to 640) | 667 | +11 % |")
}

func TestFiguresAreShort(t *testing.T) {
	for x, want := range map[float64]string{0.123: "0.12", 12.34: "12.3", 123.4: "123", 1234567.8: "1 234 568"} {
		assert.Equal(t, want, short(x))
	}
	assert.Equal(t, "1.23ms", took(1_234_567))
	assert.Equal(t, "0s", took(0))
}
