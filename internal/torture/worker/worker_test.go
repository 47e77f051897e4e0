package worker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/together"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

// The test binary is a worker too, as the command is.
func TestMain(m *testing.M) {
	worker.Main()
	redistest.Main(m)
}

// A talk is a worker in a goroutine of the test.
type talk struct {
	t       *testing.T
	in      io.WriteCloser
	lines   *bufio.Scanner
	ended   chan error
	history string
}

func begin(t *testing.T, s *stage.Stage, job worker.Job) *talk {
	t.Helper()
	in, words := io.Pipe()
	answers, out := io.Pipe()
	c := &talk{t, words, bufio.NewScanner(answers), make(chan error, 1), filepath.Join(t.TempDir(), "w0.0")}
	c.lines.Buffer(nil, 16<<20)
	go func() {
		c.ended <- worker.Run(in, out)
		_ = out.Close()
	}()
	job.Address, job.Lease, job.History = s.Address(), time.Second, c.history
	require.NoError(t, json.NewEncoder(words).Encode(job))
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
func (c *talk) settle() (s together.Settled) {
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
	var ended worker.Ended
	c.ask("end", &ended)
	require.Empty(c.t, ended.Problems)
	require.NoError(c.t, <-c.ended)
	events, err := history.ReadFiles(c.history)
	require.NoError(c.t, err)
	report, err := checker.Check(events, checker.Options{Late: time.Second})
	require.NoError(c.t, err)
	return report
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

func TestAWorkerIsToldTheTruthByWholeServers(t *testing.T) {
	for _, topology := range []stage.Topology{stage.Standalone, stage.Independent} {
		t.Run(string(topology), func(t *testing.T) {
			c := begin(t, open(t, topology), worker.Job{Seed: 4, Names: 200})
			most := c.settle().Most
			for range 2 {
				c.ask("storm", &worker.Done{})
				most = max(most, c.settle().Most)
			}
			require.Greater(t, most, 20, "it has many names")
			var idle worker.Idle
			c.ask("idle", &idle)
			require.Positive(t, idle.Goroutines)
			require.Positive(t, idle.AtFirst)
			report := c.end()
			require.Empty(t, report.Violations, "%v", report)
			require.Greater(t, report.Holds, 100)
		})
	}
}

// The server is the mutant: the history does not show that it loses a counter of tokens.
func TestTokensThatBeginAnewAreSeen(t *testing.T) {
	s := open(t, stage.Standalone)
	c := begin(t, s, worker.Job{Seed: 4})
	for deleted := int64(0); deleted == 0; {
		c.settle()
		var err error
		deleted, err = s.Do(0, "DEL", "redisson_lock_token:{p}").AsInt64()
		require.NoError(t, err)
		c.ask("storm", &worker.Done{})
	}
	for n := int64(0); n < 3; { // until it is counted again
		c.settle()
		n, _ = s.Do(0, "GET", "redisson_lock_token:{p}").AsInt64()
		c.ask("storm", &worker.Done{})
	}
	c.settle()
	report := c.end()
	require.Positive(t, report.Broken(checker.Token), "%v", report)
	require.Len(t, report.Violations, report.Broken(checker.Token))
}

func TestAWorkerWaitsForItsServer(t *testing.T) {
	s := open(t, stage.Standalone)
	require.NoError(t, s.Attempt(s.Server.Stop))
	c := begin(t, s, worker.Job{})
	require.NoError(t, s.Attempt(s.Server.Start))
	c.settle()
	c.ask("end", &worker.Ended{})
}
