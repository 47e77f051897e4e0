package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// The test binary is a worker too, as the command is.
func TestMain(m *testing.M) {
	asWorker()
	redistest.Main(m)
}

// The second half of the processes run another program: a copy of this program.
func TestAShortRunFindsNothingAndLeavesNothingUnlessAProgramIsMissing(t *testing.T) {
	redistest.Standalone(t) // or skip
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	beside := filepath.Join(t.TempDir(), "another")
	require.NoError(t, os.WriteFile(beside, program, 0o700))
	t.Chdir(t.TempDir())
	const out = "out" // relative to the working directory
	o, err := parse([]string{"-seed", "1", "-duration", "1s", "-topology", "standalone", "-faults", "client-kill", "-processes", "3", "-names", "50", "-beside", beside, "-out", out})
	require.NoError(t, err)
	require.Equal(t, []string{"", "", beside}, []string{o.program(0), o.program(1), o.program(2)})
	violations, err := run(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, violations)
	require.FileExists(t, filepath.Join(out, "torture.md"))
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, left, 1, "no history of an act without a violation")
	require.NoError(t, os.Remove(beside))
	violations, err = run(t.Context(), o)
	require.NoError(t, err)
	require.NotZero(t, violations)
}

// A server that loses its counter of tokens is the mutant: the history does not show that fault.
func TestAWorkerIsToldTheTruthUntilItsServerForgetsATokenThatItGave(t *testing.T) {
	redistest.Slow(t)
	redistest.Standalone(t) // or skip
	s, err := stage.Open(stage.Standalone, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "w0.0")
	require.NoError(t, s.Hire(workerCommand(""), answerLimit, func(int) any {
		return job{Addresses: s.Addresses(), Seed: 4, Names: 200, Lease: time.Second, History: path}
	}))
	ask := func(word string, answer any) {
		t.Helper()
		require.NoError(t, s.Workers[0].Ask(word, answer))
	}
	settle := func() (most int) { // without a problem
		t.Helper()
		time.Sleep(2500 * time.Millisecond) // longer than a wave
		var settled programs.Settled
		ask("settle", &settled)
		require.Empty(t, settled.Hung)
		require.Empty(t, settled.Problems)
		return settled.Most
	}
	most := settle()
	var n idle
	ask("idle", &n)
	require.Positive(t, n.Goroutines)
	require.Positive(t, n.AtFirst)
	for forgotten := int64(0); forgotten == 0; { // a token was given
		ask("storm", &struct{}{})
		most = max(most, settle())
		forgotten, err = s.Do(0, "DEL", "redisson_lock_token:{p}").AsInt64()
		require.NoError(t, err)
	}
	for n := int64(0); n < 3; { // until it is counted again
		ask("storm", &struct{}{})
		settle()
		n, _ = s.Do(0, "GET", "redisson_lock_token:{p}").AsInt64()
	}
	require.Greater(t, most, 20, "it has many names")
	var problems []string
	ask("end", &problems)
	require.Empty(t, problems)
	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	report := checker.Check(events, checker.Options{Late: time.Second})
	require.Greater(t, report.Acquired, 100)
	require.Positive(t, report.Broken(checker.Token))
	require.Len(t, report.Violations, report.Broken(checker.Token), "%v", report)
}
