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
)

func example() *report.Report {
	return &report.Report{
		Seed: 7, Command: "go run ./internal/torture -seed 7", When: time.Unix(0, 0), Took: time.Minute, Complete: true, Machine: "2 CPUs",
		Acts: []*report.Act{
			{
				Topology: "aof", Rounds: 3, Acquired: 10, Most: 30, LongestWait: time.Second,
				Faults:  map[string]report.Count{"flushall": {Injected: 2, Missed: 1}},
				Excused: map[string][]time.Duration{"FLUSHALL": {30 * time.Millisecond}},
				Recoveries: []report.Recovery{
					{After: "a pause", Recovery: probe.Recovery{Acquire: time.Millisecond, Renewal: time.Millisecond}},
					{After: "an earthquake", Recovery: probe.Recovery{Acquire: 3 * time.Second, Renewal: time.Second}},
				},
			},
			{Topology: "cluster", Rounds: 1, Faults: map[string]report.Count{"flushall": {Injected: 1}}},
			{Topology: "aof", Rounds: 4, Acquired: 5, Most: 20, LongestWait: time.Hour, Excused: map[string][]time.Duration{"FLUSHALL": {10 * time.Millisecond, 20 * time.Millisecond}, "DEL": {time.Second}}},
		},
	}
}

func TestTheReport(t *testing.T) {
	r := example()
	assert.Zero(t, r.Violations())
	text := r.Markdown()
	for _, line := range []string{
		"    go run ./internal/torture -seed 7\n",
		"|  | aof | cluster |", "| rounds of faults | 7 | 1 |", "| acquired | 15 | 0 |", // acts of a topology are one column
		"| most levels that a process held at once | 30 | 0 |", "| longest wait, faults included | 1h0m0s | 0s |", "| flushall | 3 | 1 |",
		"**0 violations.** Two holders at once where Redis forgot a grant, which no lock in Redis can prevent:", // and no violation
		"| DEL | 1 | 1s | 1s | 1s |\n| FLUSHALL | 3 | 20ms | 30ms | 60ms |\n| all | 4 | 30ms | 1s | 1.06s |\n",
		"Locks worked again within 1s after 1 of 2 rounds. The others:", "after an earthquake",
	} {
		assert.Contains(t, text, line)
	}
	for _, line := range []string{"after a pause", "ended early", "No two holders"} {
		assert.NotContains(t, text, line)
	}
}

func TestWhatIsWrongIsShown(t *testing.T) {
	r := example()
	for i := range r.Acts {
		r.Acts[i].Excused = nil
	}
	assert.Contains(t, r.Markdown(), "No two holders at once.")
	r.Acts[1].Overlaps = 1
	assert.NotContains(t, r.Markdown(), "No two holders at once.")
	r.Acts[1].Violate("%d liars", 2)
	assert.Equal(t, 1, r.Violations())
	r.Complete = false
	text := r.Markdown()
	assert.Contains(t, text, "**1 violations.**")
	assert.Contains(t, text, "- cluster: 2 liars\n")
	assert.Contains(t, text, "ended early")

	folder := filepath.Join(t.TempDir(), "new")
	require.NoError(t, r.Write(folder))
	written, err := os.ReadFile(filepath.Join(folder, "torture.md"))
	require.NoError(t, err)
	assert.Equal(t, text, string(written))
}
