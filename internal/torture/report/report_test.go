package report_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/torture/probe"
	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

func example() *report.Report {
	return &report.Report{
		Seed: 7, Command: "go run ./internal/torture -seed 7", When: time.Unix(0, 0), Took: time.Minute, Complete: true, Machine: "2 CPUs",
		Acts: []*report.Act{
			{
				Topology: "aof", Rounds: 3, Acquired: 10, Most: 30, Longest: worker.Wait{For: time.Second, Who: "a"},
				Faults:  map[string]report.Count{"cut": {Injected: 2, Missed: 1}},
				Excused: map[string][]time.Duration{"FLUSHALL": {30 * time.Millisecond}},
				Recoveries: []report.Recovery{
					{After: "a cut", Recovery: probe.Recovery{Acquire: time.Millisecond, Renewal: time.Millisecond}},
					{After: "an earthquake", Recovery: probe.Recovery{Acquire: 3 * time.Second, Renewal: time.Second}},
				},
			},
			{Topology: "cluster", Rounds: 1, Faults: map[string]report.Count{"cut": {Injected: 1}}},
			{Topology: "aof", Rounds: 4, Acquired: 5, Most: 20, Longest: worker.Wait{For: time.Hour, Who: "b"}, Excused: map[string][]time.Duration{"FLUSHALL": {10 * time.Millisecond, 20 * time.Millisecond}, "DEL": {time.Second}}},
		},
	}
}

func TestActsOfATopologyAreOneColumn(t *testing.T) {
	text := example().Markdown()
	assert.Contains(t, text, "|  | aof | cluster |")
	assert.Contains(t, text, "| rounds of faults | 7 | 1 |")
	assert.Contains(t, text, "| acquired | 15 | 0 |")
	assert.Contains(t, text, "| most levels that a client held at once | 30 | 0 |")
	assert.Contains(t, text, "| longest wait, faults included | 1h0m0s | 0s |")
	assert.Contains(t, text, "| cut | 3 | 1 |")
	assert.Contains(t, text, "    go run ./internal/torture -seed 7\n")
}

func TestAnExcusedOverlapIsReportedAndIsNoViolation(t *testing.T) {
	r := example()
	assert.Zero(t, r.Violations())
	text := r.Markdown()
	assert.Contains(t, text, "**0 violations.** Two holders at once where Redis forgot a grant, which no lock in Redis can prevent:")
	assert.Contains(t, text, "| DEL | 1 | 1s | 1s | 1s | 1s |\n| FLUSHALL | 3 | 20ms | 20ms | 30ms | 60ms |\n| all | 4 | 20ms | 30ms | 1s | 1.06s |\n")
}

func TestTwoHoldersAtOnceAreNotDenied(t *testing.T) {
	r := example()
	for i := range r.Acts {
		r.Acts[i].Excused = nil
	}
	assert.Contains(t, r.Markdown(), "No two holders at once.")
	r.Acts[1].Overlaps = 1
	assert.NotContains(t, r.Markdown(), "No two holders at once.")
}

func TestEachViolationIsShown(t *testing.T) {
	r := example()
	r.Acts[1].Violate("%d liars", 2)
	assert.Equal(t, 1, r.Violations())
	assert.Contains(t, r.Markdown(), "**1 violations.**")
	assert.Contains(t, r.Markdown(), "- cluster: 2 liars\n")
}

func TestSlowRecoveriesAreNamed(t *testing.T) {
	text := example().Markdown()
	assert.Contains(t, text, "Locks worked again within 1s after 1 of 2 rounds. The others:")
	assert.Contains(t, text, "after an earthquake")
	assert.NotContains(t, text, "after a cut")
}

func TestARunThatWasEndedEarlySaysSo(t *testing.T) {
	r := example()
	assert.NotContains(t, r.Markdown(), "ended early")
	r.Complete = false
	assert.Contains(t, r.Markdown(), "ended early")
}

func TestALatencyIsMadeOfThoseInTheMiddleAndAtTheEnd(t *testing.T) {
	var all []time.Duration
	for i := range 101 {
		all = append(all, time.Duration(100-i))
	}
	assert.Equal(t, report.Latency{N: 101, P50: 50, P99: 99, Worst: 100}, report.NewLatency(all))
	assert.Equal(t, report.Latency{N: 1, P50: 3, P99: 3, Worst: 3}, report.NewLatency([]time.Duration{3}))
	assert.Zero(t, report.NewLatency(nil))
}

func TestTheFolderHasTheReport(t *testing.T) {
	folder, r := filepath.Join(t.TempDir(), "new"), example()
	require.NoError(t, r.Write(folder))
	text, err := os.ReadFile(filepath.Join(folder, "torture.md"))
	require.NoError(t, err)
	assert.Equal(t, r.Markdown(), string(text))
}
