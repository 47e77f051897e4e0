package worker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/redistest"
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
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
	ended chan error
}

func begin(t *testing.T, job worker.Job) *talk {
	t.Helper()
	in, words := io.Pipe()
	answers, out := io.Pipe()
	c := &talk{t, words, bufio.NewScanner(answers), make(chan error, 1)}
	c.lines.Buffer(nil, 16<<20)
	go func() {
		c.ended <- worker.Run(in, out)
		_ = out.Close()
	}()
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

func open(t *testing.T) *stage.Stage {
	t.Helper()
	return openFor(t, "plain")
}

// openFor opens the first topology that is for the kind of lock.
func openFor(t *testing.T, kind string) *stage.Stage {
	t.Helper()
	redistest.Standalone(t) // or skip
	i := slices.IndexFunc(stage.Topologies(), func(t stage.Topology) bool { return len(worker.Fit([]string{kind}, t)) > 0 })
	s, err := stage.Open(stage.Topologies()[i], t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.AllAnswer(), "the goroutines of the admin's clients exist before the worker's")
	return s
}

func TestTheBeliefsOfAWorkerAreTrueWithoutFaults(t *testing.T) {
	for _, kind := range worker.Kinds {
		t.Run(kind, func(t *testing.T) { believes(t, kind) })
	}
}

func believes(t *testing.T, kind string) {
	s, path := openFor(t, kind), filepath.Join(t.TempDir(), "w0.0")
	c := begin(t, worker.Job{
		Address: s.Address(), Seed: 5, Goroutines: 5, Names: []string{"a", "b"}, Kinds: []string{kind}, Lease: 400 * time.Millisecond, History: path,
	})
	// It rests and goes on, until it has taken locks and given them back in all ways.
	var acquired int64
	for range 10 {
		acquired += c.storm()
	}
	for ways(t, path) < 10 {
		acquired += c.storm()
	}
	require.Positive(t, acquired)

	var cancels worker.Cancels
	c.ask("cancels", &cancels)
	require.NotEmpty(t, cancels.Calls)
	require.Len(t, cancels.Bare, len(cancels.Calls))
	var idle worker.Idle
	c.ask("idle", &idle)
	require.Positive(t, idle.Goroutines)
	require.Positive(t, idle.AtFirst)
	var ended worker.Ended
	c.ask("end", &ended)
	require.Empty(t, ended.Closed)
	require.Empty(t, ended.Left)
	require.NoError(t, <-c.ended)

	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	report, err := checker.Check(events, checker.Options{Late: time.Second})
	require.NoError(t, err)
	require.Empty(t, report.Violations, "%v", report)
	require.GreaterOrEqual(t, int64(report.Outcomes[history.Acquired]), acquired)
}

func TestAWideWorkerHoldsManyNamesAtOnce(t *testing.T) {
	redistest.Slow(t)
	const names = 200
	s, path := open(t), filepath.Join(t.TempDir(), "w0.0")
	c := begin(t, worker.Job{
		Address: s.Address(), Seed: 5, Goroutines: 2, Names: []string{"a"}, Wide: names, Kinds: []string{"plain", "multi"}, Lease: 400 * time.Millisecond, History: path,
	})
	for most := int64(0); most < names/4; {
		c.ask("storm", &worker.Done{})
		time.Sleep(100 * time.Millisecond)
		var settled worker.Settled
		c.ask("settle", &settled)
		require.Empty(t, settled.Hung)
		most = settled.Most
	}
	var ended worker.Ended
	c.ask("end", &ended)
	require.NoError(t, ended.Err())
	require.NoError(t, <-c.ended)

	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	report, err := checker.Check(events, checker.Options{Late: time.Second})
	require.NoError(t, err)
	require.Empty(t, report.Violations, "%v", report)
	require.Greater(t, report.Holds, names/4)
}

// storm lets the worker work for a while, and returns how many levels it took.
func (c *talk) storm() int64 {
	c.t.Helper()
	c.ask("storm", &worker.Done{})
	time.Sleep(100 * time.Millisecond)
	var settled worker.Settled
	c.ask("settle", &settled)
	require.Empty(c.t, settled.Hung)
	return settled.Acquired
}

// ways returns how many methods were called: seven take a lock, and three give it back.
// ForceUnlock is rare, and is not counted.
func ways(t *testing.T, path string) int {
	t.Helper()
	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	methods := make(map[history.Method]bool)
	for _, e := range events {
		if e.Kind == history.Called && e.Op.Method != history.ForceUnlock {
			methods[e.Op.Method] = true
		}
	}
	return len(methods)
}

// The server is the mutant: the history does not show that it loses a token counter.
func TestTokensThatBeginAnewAreSeen(t *testing.T) {
	s, path := open(t), filepath.Join(t.TempDir(), "w0.0")
	c := begin(t, worker.Job{
		Address: s.Address(), Seed: 5, Goroutines: 3, Names: []string{"a"}, Kinds: []string{"fenced"}, Lease: 400 * time.Millisecond, History: path,
	})
	for range 2 {
		for acquired := int64(0); acquired < 10; { // on a busy machine a storm may acquire nothing
			acquired += c.storm()
		}
		deleted, err := s.Do(0, "DEL", "redisson_lock_token:{a}").AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, deleted)
	}
	c.ask("end", &worker.Ended{})
	require.NoError(t, <-c.ended)

	events, err := history.ReadFiles(path)
	require.NoError(t, err)
	report, err := checker.Check(events, checker.Options{Late: time.Second})
	require.NoError(t, err)
	require.Positive(t, report.Broken(checker.Token), "%v", report)
	require.Positive(t, report.Broken(checker.Order))
	require.Len(t, report.Violations, report.Broken(checker.Token)+report.Broken(checker.Order))
}

func TestAWorkerWaitsForItsServer(t *testing.T) {
	s := open(t)
	require.NoError(t, s.Attempt(s.Server.Stop))
	c := begin(t, worker.Job{
		Address: s.Address(), Goroutines: 1, Names: []string{"a"}, Lease: time.Second, History: filepath.Join(t.TempDir(), "w0.0"),
	})
	require.NoError(t, s.Attempt(s.Server.Start))
	var settled worker.Settled
	c.ask("settle", &settled)
	require.Empty(t, settled.Hung)
	c.ask("end", &worker.Ended{})
}
