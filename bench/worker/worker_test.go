package worker_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest"
)

// job completes a job with the fields that all tests share.
func job(t *testing.T, j worker.Job) worker.Job {
	j.Processes, j.Locks = max(1, j.Processes), max(1, j.Locks)
	j.Prefix = "test:" + t.Name()
	if j.Duration == 0 {
		j.Duration = 100 * time.Millisecond
	}
	if j.Stall == 0 {
		j.Stall = 5 * time.Second
	}
	if j.Drain == 0 {
		j.Drain = 5 * time.Second
	}
	path, err := worker.CreateGround(j.Locks)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(path) })
	j.Ground = path
	return j
}

// do runs a job in this process.
func do(t *testing.T, j worker.Job) worker.Report {
	t.Helper()
	report, err := try(t, j)
	require.NoError(t, err)
	assert.Equal(t, j.Process, report.Process)
	return report
}

// until does jobs, each made anew, until a report shows an event: on a busy machine a window
// may pass without one.
func until(t *testing.T, j worker.Job, shows func(worker.Report) bool) worker.Report {
	t.Helper()
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		if r := do(t, job(t, j)); shows(r) {
			return r
		}
	}
	require.FailNow(t, "no report shows it")
	return worker.Report{}
}

func sections(r worker.Report) bool { return r.Sections > 0 }
func overlaps(r worker.Report) bool { return r.Overlaps > 0 }
func fails(r worker.Report) bool    { return r.Failures > 0 }

func try(t *testing.T, j worker.Job) (report worker.Report, err error) {
	t.Helper()
	line, err := json.Marshal(j)
	require.NoError(t, err)
	in, say := io.Pipe()
	out, pipe := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(in, pipe)
		_ = pipe.Close()
		_ = in.Close()
	}()
	_, err = say.Write(append(line, '\n'))
	require.NoError(t, err)
	lines := bufio.NewReader(out)
	ready, _ := lines.ReadString('\n')
	if ready == "ready\n" {
		go func() { _, _ = fmt.Fprintf(say, "%d\nrelease\n", time.Now().UnixNano()) }() // the word is for held locks
		_ = json.NewDecoder(lines).Decode(&report)
	}
	_, _ = io.Copy(io.Discard, lines)
	return report, <-ended
}

func addr(t *testing.T) string { return redistest.Standalone(t).Addr() }

func TestABrokenLockIsCaught(t *testing.T) {
	until(t, worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 4, Section: time.Millisecond}, overlaps)
}

func TestAWaiterThatIsNeverWokenIsStuckAndNotAFailure(t *testing.T) {
	r := until(t, worker.Job{Kind: worker.Loop, Contender: "deaf", Goroutines: 8, Section: time.Millisecond, Stall: 100 * time.Millisecond, Drain: time.Minute},
		func(r worker.Report) bool { return r.Stuck > 0 })
	assert.Zero(t, r.Overlaps)
	assert.Zero(t, r.Failures)
	assert.Zero(t, r.Cut)
	assert.Less(t, r.Stuck, int64(8), "one goroutine has the lock")
	assert.EqualValues(t, r.Stuck, r.Wait.Count-uncounted(r), "waits that did not end are recorded")
}

// uncounted returns the waits that ended in a section, within the window or just after it.
func uncounted(r worker.Report) int64 { return r.Pair.Count }

func TestALockThatExcludesHasNoFaults(t *testing.T) {
	r := until(t, worker.Job{Kind: worker.Loop, Contender: "rlock", Addr: addr(t), Goroutines: 4}, func(r worker.Report) bool { return r.Sections > 0 && r.CPU > 0 })
	assert.Zero(t, r.Overlaps)
	assert.Zero(t, r.Failures, r.FirstFailure)
	assert.Zero(t, r.Stuck)
	assert.GreaterOrEqual(t, r.Wait.Count, r.Sections)
	assert.LessOrEqual(t, r.Wait.P50, r.Wait.P99)
	assert.LessOrEqual(t, r.Least, r.Most)
}

func TestAFailureIsCountedAndQuoted(t *testing.T) {
	// The floor does not wait: it fails while another goroutine holds the lock.
	r := until(t, worker.Job{Kind: worker.Loop, Contender: "floor-setnx", Addr: addr(t), Goroutines: 4, Section: time.Millisecond}, fails)
	assert.Contains(t, r.FirstFailure, "does not wait")
	assert.Zero(t, r.Overlaps)
}

func TestAPauseLeavesTheLockFree(t *testing.T) {
	// A pause of some minutes is longer than the window, and ends the job.
	r := until(t, worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 1, Pause: time.Hour}, sections)
	assert.Less(t, r.Sections, int64(10))
	assert.Zero(t, r.Failures, r.FirstFailure)
	r = until(t, worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 1, Pause: 10 * time.Millisecond, Duration: 300 * time.Millisecond},
		func(r worker.Report) bool { return r.Sections > 1 })
	assert.Less(t, r.Sections, int64(300), "with pauses of 5 ms on average there is time for some 60")
}

func TestReadersMayOverlapAndWritersMayNot(t *testing.T) {
	read := worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 4, Reads: 100, Section: time.Millisecond}
	assert.Zero(t, until(t, read, sections).Overlaps, "all sections are shared")
	read.Reads = 50
	until(t, read, overlaps)
}

func TestNestingTimesTheInnerPairs(t *testing.T) {
	r := until(t, worker.Job{Kind: worker.Nest, Contender: "rlock", Addr: addr(t), Goroutines: 1, Depth: 5}, sections)
	assert.GreaterOrEqual(t, r.Nested.Count, r.Sections)
	assert.Less(t, r.Nested.P50, r.Pair.P50)
	assert.Zero(t, r.Failures, r.FirstFailure)
}

func TestNestingALockThatIsNotReentrantFails(t *testing.T) {
	r := do(t, job(t, worker.Job{Kind: worker.Nest, Contender: "floor-setnx", Addr: addr(t), Goroutines: 1, Depth: 2}))
	assert.Zero(t, r.Sections)
	assert.EqualValues(t, 1, r.Failures)
}

func TestHeldLocksAreMeasuredAndReleased(t *testing.T) {
	server := redistest.Standalone(t)
	hold := worker.Job{Kind: worker.Hold, Contender: "rlock", Addr: server.Addr(), Locks: 200, Lease: 30 * time.Second}
	r := do(t, job(t, hold))
	assert.Zero(t, r.Lost)
	assert.Greater(t, r.BytesPerLock, 100.0)
	assert.Less(t, r.Goroutines, 200, "no goroutine for a lock")
	hold.Contender = "deaf"
	r = do(t, job(t, hold))
	assert.Zero(t, r.Lost)
	assert.GreaterOrEqual(t, r.Goroutines, 200, "a goroutine for each lock")
	redis := server.Client(t)
	left, err := redis.Do(t.Context(), redis.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	assert.Zero(t, left)
}

func TestHoldsThatWereLostAreCounted(t *testing.T) {
	r := do(t, job(t, worker.Job{Kind: worker.Hold, Contender: "floor-setnx", Addr: addr(t), Locks: 10, Lease: 100 * time.Millisecond, Duration: 400 * time.Millisecond}))
	assert.EqualValues(t, 10, r.Lost)
	assert.NotEmpty(t, r.FirstFailure)
}

func TestAFreeLockThatCannotBeTakenEndsTheTaking(t *testing.T) {
	server := redistest.Standalone(t)
	j := job(t, worker.Job{Kind: worker.Hold, Contender: "redislock-linear", Addr: server.Addr(), Locks: 100, Lease: 30 * time.Second, Stall: 300 * time.Millisecond})
	redis := server.Client(t)
	require.NoError(t, redis.Do(t.Context(), redis.B().Set().Key(j.Prefix+":42").Value("another's").Build()).Error())
	_, err := try(t, j)
	require.Error(t, err)
	// A machine that stops for so long does not take all of the others.
	assert.Regexp(t, "took [0-9]{1,2} of 100 free locks in .*: a Lock has not returned", err.Error())
}

func TestLocksThatCannotBeReleasedAreCounted(t *testing.T) {
	server := redistest.Standalone(t)
	line, err := json.Marshal(job(t, worker.Job{Kind: worker.Hold, Contender: "floor-setnx", Addr: server.Addr(), Locks: 10, Stall: 600 * time.Millisecond}))
	require.NoError(t, err)
	in, say := io.Pipe()
	hear, out := io.Pipe()
	go func() {
		assert.NoError(t, worker.Run(in, out))
		_ = out.Close()
	}()
	_, err = say.Write(append(line, '\n'))
	require.NoError(t, err)
	said := bufio.NewReader(hear)
	_, err = said.ReadString('\n') // ready: it has the locks
	require.NoError(t, err)
	server.Pause()
	defer server.Resume()
	_, err = fmt.Fprintf(say, "%d\nrelease\n", time.Now().UnixNano())
	require.NoError(t, err)
	var r worker.Report
	require.NoError(t, json.NewDecoder(said).Decode(&r))
	assert.EqualValues(t, 10, r.Kept)
	assert.Zero(t, r.Lost)
}

func TestTwoProcessesTakeTurns(t *testing.T) {
	redis := addr(t)
	handovers := int64(0)
	for began := time.Now(); handovers == 0 && time.Since(began) < 2*time.Minute; {
		first := job(t, worker.Job{Kind: worker.Handover, Contender: "rlock", Addr: redis, Processes: 2, Goroutines: 1, Section: time.Millisecond, Duration: 500 * time.Millisecond})
		second := first
		second.Process = 1
		reports := make(chan worker.Report, 1)
		go func() {
			r, _ := try(t, second)
			reports <- r
		}()
		a := do(t, first)
		b := <-reports
		handovers = a.Handover.Count + b.Handover.Count
		assert.InDelta(t, a.Sections, b.Sections, 2)
		assert.Zero(t, a.Overlaps+b.Overlaps)
	}
	assert.Positive(t, handovers)
}

func TestAnImpossibleJobIsAnError(t *testing.T) {
	_, err := try(t, job(t, worker.Job{Kind: worker.Loop, Contender: "unknown"}))
	assert.ErrorContains(t, err, "unknown")
	_, err = try(t, job(t, worker.Job{Kind: worker.Loop, Contender: "rlock", Addr: "127.0.0.1:1"}))
	assert.Error(t, err)
	_, err = try(t, worker.Job{Contender: "broken", Locks: 1, Ground: "/nowhere"})
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorIs(t, worker.Run(strings.NewReader(""), io.Discard), io.EOF)
	assert.Error(t, worker.Run(strings.NewReader("no job\n"), io.Discard))
	line, err := json.Marshal(job(t, worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 1}))
	require.NoError(t, err)
	assert.ErrorContains(t, worker.Run(bytes.NewReader(append(line, '\n')), io.Discard), "begin")
}

func TestLatenciesMergeIntoOneDistribution(t *testing.T) {
	a := do(t, job(t, worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 1, Section: time.Millisecond})).Pair
	b := do(t, job(t, worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 2, Section: time.Millisecond})).Pair
	merged, err := a.Merge(b)
	require.NoError(t, err)
	assert.Equal(t, a.Count+b.Count, merged.Count)
	assert.Equal(t, max(a.Worst, b.Worst), merged.Worst)
	same, err := a.Merge(worker.Latency{})
	require.NoError(t, err)
	assert.Equal(t, a, same)
	same, err = worker.Latency{}.Merge(a)
	require.NoError(t, err)
	assert.Equal(t, a, same)
	_, err = a.Merge(worker.Latency{Count: 1, Histogram: []byte("none")})
	assert.Error(t, err)
}
