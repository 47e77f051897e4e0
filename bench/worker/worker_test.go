package worker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
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

func try(t *testing.T, j worker.Job) (report worker.Report, err error) {
	t.Helper()
	redistest.Guard(t)
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

func TestAWaiterThatIsNeverWokenIsStuckAndNotAFailure(t *testing.T) {
	r := until(t, worker.Job{Kind: worker.Loop, Contender: "deaf", Goroutines: 8, Section: time.Millisecond, Stall: 100 * time.Millisecond, Drain: time.Minute},
		func(r worker.Report) bool { return r.Stuck > 0 })
	assert.Zero(t, r.Overlaps)
	assert.Zero(t, r.Failures)
	assert.Zero(t, r.Cut)
	assert.Less(t, r.Stuck, int64(8), "one goroutine has the lock")
	assert.EqualValues(t, r.Stuck, r.Wait.Count-r.Pair.Count, "waits that did not end are recorded")
}

func TestReadersMayOverlapAndWritersMayNot(t *testing.T) {
	read := worker.Job{Kind: worker.Loop, Contender: "broken", Goroutines: 4, Reads: 100, Section: time.Millisecond}
	assert.Zero(t, until(t, read, sections).Overlaps, "all sections are shared")
	read.Reads = 50
	until(t, read, overlaps)
}
