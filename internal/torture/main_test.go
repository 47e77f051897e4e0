package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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

// The second half of the processes run another program: a copy of this one, which has nothing else
// in common with it.
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

// A talk is a worker in a goroutine of the test.
type talk struct {
	t       *testing.T
	in      io.WriteCloser
	lines   *bufio.Scanner
	ended   chan error
	history string
}

func begin(t *testing.T, s *stage.Stage, j job) *talk {
	t.Helper()
	in, words := io.Pipe()
	answers, out := io.Pipe()
	c := &talk{t, words, bufio.NewScanner(answers), make(chan error, 1), filepath.Join(t.TempDir(), "w0.0")}
	c.lines.Buffer(nil, 16<<20)
	go func() {
		c.ended <- work(in, out)
		_ = out.Close()
	}()
	j.Addresses, j.Lease, j.History = s.Addresses(), time.Second, c.history
	require.NoError(t, json.NewEncoder(words).Encode(j))
	return c
}

func (c *talk) ask(word string, answer any) {
	c.t.Helper()
	_, err := fmt.Fprintln(c.in, word)
	require.NoError(c.t, err)
	require.True(c.t, c.lines.Scan(), word)
	require.NoError(c.t, json.Unmarshal(c.lines.Bytes(), answer))
}

// settle lets the worker work for a while, and rest, without a problem.
func (c *talk) settle() (s programs.Settled) {
	c.t.Helper()
	time.Sleep(2500 * time.Millisecond) // longer than a wave
	c.ask("settle", &s)
	require.Empty(c.t, s.Hung)
	require.Empty(c.t, s.Problems)
	return s
}

// end ends the worker, and returns the judgement of its history.
func (c *talk) end() checker.Report {
	c.t.Helper()
	var problems []string
	c.ask("end", &problems)
	require.Empty(c.t, problems)
	require.NoError(c.t, redistest.Await(c.t, c.ended))
	events, err := history.ReadFiles(c.history)
	require.NoError(c.t, err)
	return checker.Check(events, checker.Options{Late: time.Second})
}

func open(t *testing.T, topology stage.Topology) *stage.Stage {
	t.Helper()
	redistest.Slow(t)
	redistest.Standalone(t) // or skip
	s, err := stage.Open(topology, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.AllAnswer(), "the goroutines of the admin's clients exist before the worker's")
	return s
}

// A server that loses its counter of tokens is the mutant: the history does not show that fault.
func TestAWorkerIsToldTheTruthUntilItsServerForgetsATokenThatItGave(t *testing.T) {
	for _, topology := range []stage.Topology{stage.Standalone, stage.Independent} {
		t.Run(string(topology), func(t *testing.T) {
			s := open(t, topology)
			c := begin(t, s, job{Seed: 4, Names: 200})
			most := c.settle().Most
			var n idle
			c.ask("idle", &n)
			require.Positive(t, n.Goroutines)
			require.Positive(t, n.AtFirst)
			forgotten := int64(0)
			for forgotten == 0 { // a token was given
				c.ask("storm", &struct{}{})
				most = max(most, c.settle().Most)
				if topology == stage.Independent {
					break
				}
				var err error
				forgotten, err = s.Do(0, "DEL", "redisson_lock_token:{p}").AsInt64()
				require.NoError(t, err)
			}
			for n := int64(0); forgotten > 0 && n < 3; { // until it is counted again
				c.ask("storm", &struct{}{})
				c.settle()
				n, _ = s.Do(0, "GET", "redisson_lock_token:{p}").AsInt64()
			}
			require.Greater(t, most, 20, "it has many names")
			report := c.end()
			require.Greater(t, report.Acquired, 100)
			require.Equal(t, forgotten > 0, report.Broken(checker.Token) > 0)
			require.Len(t, report.Violations, report.Broken(checker.Token), "%v", report)
		})
	}
}
