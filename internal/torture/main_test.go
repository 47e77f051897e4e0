package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

func TestAShortRunFindsNothingAndLeavesNothing(t *testing.T) {
	redistest.Standalone(t) // or skip
	t.Chdir(t.TempDir())
	const out = "out" // relative to the working directory
	o, err := parse([]string{"-seed", "1", "-duration", "1s", "-topology", "standalone", "-faults", "client-kill", "-processes", "2", "-names", "50", "-out", out})
	require.NoError(t, err)
	violations, err := run(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, violations)
	require.FileExists(t, filepath.Join(out, "torture.md"))
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, left, 1, "no history of an act without a violation")
}

// The other program is a copy of this one, whose processes have nothing else in common with the
// first half.
func TestTheSecondHalfOfTheProcessesRunAnotherProgram(t *testing.T) {
	redistest.Standalone(t) // or skip
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	beside := filepath.Join(t.TempDir(), "another")
	require.NoError(t, os.WriteFile(beside, program, 0o700))
	o, err := parse([]string{"-seed", "1", "-duration", "1s", "-topology", "standalone", "-faults", "client-kill", "-processes", "3", "-names", "50", "-beside", beside, "-out", t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, []string{"", "", beside}, []string{o.program(0), o.program(1), o.program(2)})
	violations, err := run(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, violations)
	require.NoError(t, os.Remove(beside))
	violations, err = run(t.Context(), o)
	require.NoError(t, err)
	require.NotZero(t, violations, "it cannot be started")
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
	for _, args := range []string{"", "-seed 9 -duration 30m -topology cluster,aof -faults flushall,del -processes 2 -names 0 -lease 3s -beside ../torture"} {
		o, err := parse(strings.Fields(args))
		require.NoError(t, err)
		again, err := parse(o.args())
		require.NoError(t, err)
		require.Equal(t, o, again)
	}
	for _, args := range []string{
		"-topology ring", "-faults earthquake", "-faults move-slot -topology aof", "-processes 0", "-names -1", "-names 10001", "cluster",
	} {
		_, err := parse(strings.Fields(args))
		require.Error(t, err, args)
		require.NotErrorIs(t, err, flag.ErrHelp)
	}
}

func TestAPlanRepeatsItselfAndHasEachKindAloneBeforeAnyIsTwice(t *testing.T) {
	lease := 1500 * time.Millisecond
	for _, topology := range stage.Topologies {
		planOf := func(seed uint64) plan {
			return plan{seed, topology, stage.For(topology), stage.Scene{Workers: 4, Names: []string{"a", "b", "c"}, Lease: lease}}
		}
		p := planOf(7)
		require.NotEqual(t, p.round(1).String(), planOf(8).round(1).String())
		alone, sizes, short, long := make(map[string]int), make(map[int]int), 2*lease, time.Duration(0)
		for n := range 6 * len(p.kinds) {
			r := p.round(n)
			require.Equal(t, r.String(), planOf(7).round(n).String())
			sizes[len(r.steps)]++
			if n%2 == 0 {
				alone[r.steps[0].kind.Name]++
				require.Equal(t, n/2/len(p.kinds)+1, alone[r.steps[0].kind.Name])
			}
			for i, s := range r.steps {
				short, long = min(short, s.to-s.from), max(long, s.to-s.from)
				require.LessOrEqual(t, r.steps[max(i-1, 0)].from, s.from)
			}
		}
		require.Len(t, sizes, 4)
		require.Greater(t, short, lease/11)
		require.Less(t, short, lease/2, "locks survive some")
		require.Greater(t, long, 3*lease/2, "locks do not survive others")
	}
}

func TestTheReport(t *testing.T) {
	aof, cluster := &figures{topology: stage.AOF, rounds: 3, most: 30}, &figures{topology: stage.Cluster}
	aof.checked.Acquired, aof.checked.LongestWait = 10, time.Second
	r := &report{
		seed: 7, command: "go run ./internal/torture -seed 7", when: time.Unix(0, 0), took: time.Minute, complete: true, machine: "2 CPUs",
		acts: []*figures{aof, cluster}, faults: map[string]count{"flushall": {3, 1}},
		excused: map[string][]time.Duration{"FLUSHALL": {30 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond}},
	}
	text := r.markdown()
	for _, part := range []string{
		"    go run ./internal/torture -seed 7\n",
		"| servers | time | rounds of faults |", "\n| aof | 0s | 3 | 0 | 10 | 30 |", "| 1s |\n| cluster |", "| flushall | 3 | 1 |",
		"**0 violations.** Two holders at once where Redis forgot a grant", "| FLUSHALL | 3 | 20ms | 30ms | 60ms |",
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "ended early")

	clear(r.excused)
	require.Contains(t, r.markdown(), "No two holders at once.")
	cluster.checked.Violations = []checker.Violation{{Rule: checker.Overlap}}
	cluster.violate("%d liars", 2)
	r.complete = false
	text = r.markdown()
	require.NotContains(t, text, "No two holders at once.")
	require.Contains(t, text, "**1 violations.**")
	require.Contains(t, text, "- cluster: 2 liars\n")
	require.Contains(t, text, "ended early")
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

func TestAWorkerWaitsForItsServer(t *testing.T) {
	s := open(t, stage.Standalone)
	require.NoError(t, redistest.Attempt(s.Servers[0].Stop))
	c := begin(t, s, job{})
	require.NoError(t, redistest.Attempt(s.Servers[0].Start))
	c.settle()
	c.ask("end", &[]string{}) // the goroutine of the server that was started is a problem
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
