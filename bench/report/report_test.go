package report_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/report"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
)

// full returns a report with figures in every cell: those of the library are factor, all
// others 1.
func full(factor int64) *report.Report {
	r := &report.Report{
		Machine: report.Machine{When: time.Now(), Go: "go1", Redis: "7", OS: "linux", Arch: "amd64", CPU: "a CPU", CPUs: 2},
		Took:    time.Minute, Complete: true, RoundTrips: map[string]time.Duration{"0.5ms": 600 * time.Microsecond},
	}
	for _, s := range scenario.All() {
		for _, cell := range s.Cells(scenario.Size{}) {
			for _, c := range contender.All() {
				if !s.Compares(c) {
					continue
				}
				res := arena.NewResult(cell, c)
				r.Results = append(r.Results, res)
				if res.Skipped = s.Refuses(c); res.Skipped != "" {
					continue
				}
				res.Rounds, res.Elapsed, res.Sections = 1, time.Second, 1000
				res.RoundTrip = time.Millisecond
				each := time.Millisecond
				if strings.HasPrefix(c.Name, "rlock") {
					res.Sections *= factor
					each /= time.Duration(factor)
				}
				l := worker.Latency{Count: 1, P50: each, P90: each, P99: each, P999: each, Worst: each}
				res.Wait, res.Pair, res.Nested, res.Handover, res.Turns = l, l, l, l, l
				res.Fewest, res.Most, res.FewestGoroutine, res.MostGoroutine = 99, 100, 99, 100
				res.ClientCPU, res.RedisCPU = time.Millisecond, time.Millisecond
				res.Sent, res.Served = 2000, 100*time.Millisecond
			}
		}
	}
	return r
}

func find(t *testing.T, r *report.Report, name, who string) *arena.Result {
	for _, res := range r.Results {
		if res.Scenario == name && res.Contender == who && res.Rounds > 0 {
			return res
		}
	}
	require.Fail(t, "not there", "%s %s", name, who)
	return nil
}

func TestAFaultIsInItsRowAndInTheList(t *testing.T) {
	r := full(1)
	assert.NotContains(t, r.Markdown(nil), "Failures")
	res := find(t, r, "four-processes", "redsync")
	res.Overlaps, res.Stuck, res.Failures, res.Cut = 1, 3, 4000, 5
	res.FirstFailure = "it hurts"
	md := r.Markdown(nil)
	assert.Contains(t, md, "Failures")
	assert.Equal(t, 2, strings.Count(md, "1 OVERLAP, 3 never woken, 4 000 failures, 5 still waiting"))
	assert.Contains(t, md, "it hurts")
	assert.Contains(t, r.Markdown(nil), "1 OVERLAP")
	find(t, r, "hold", "rueidislock").KeptHolds = 17
	assert.Equal(t, 2, strings.Count(r.Markdown(nil), "17 not given back"))
}

func TestAbsentContendersAreListedWithTheReason(t *testing.T) {
	r := full(1)
	assert.Contains(t, r.Markdown(nil), "Not here (does not wait): floor-evalsha, floor-setnx.")
	res := find(t, r, "handover", "redsync")
	res.Rounds, res.Error = 0, "it broke"
	assert.Contains(t, r.Markdown(nil), "Not here (it broke): redsync.")
	*res = arena.Result{Scenario: res.Scenario, Setting: res.Setting, Network: res.Network, Contender: "redsync"}
	assert.Contains(t, r.Markdown(nil), "Not here (not measured: the run was ended): redsync.")
}

func TestEverythingIsWritten(t *testing.T) {
	r := full(3)
	folder := filepath.Join(t.TempDir(), "results")
	require.NoError(t, r.Write(folder))

	raw, err := os.ReadFile(filepath.Join(folder, "results.json"))
	require.NoError(t, err)
	var back report.Report
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Len(t, back.Results, len(r.Results))
	assert.Equal(t, r.Results[0].Pair, back.Results[0].Pair)

	md, err := os.ReadFile(filepath.Join(folder, "results.md"))
	require.NoError(t, err)
	plots, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	require.NoError(t, err)
	assert.Len(t, plots, 4+3)
	for _, plot := range plots {
		assert.Contains(t, string(md), "("+filepath.Base(plot)+")")
		svg, err := os.ReadFile(plot)
		require.NoError(t, err)
		assert.True(t, bytes.HasPrefix(svg, []byte("<?xml")))
		assert.Contains(t, string(svg), "rlock")
	}
}
