package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A worker is a process of torture: a [programs.Process], which calls everything that there is, and
// notes in a history what it was told of locks. It may be stopped or killed at any moment.
//
// It reads its job as a line of JSON, and connects. Then it answers each word that it reads with a
// line of JSON:
//
//	storm     callers go on, and its own networks break              an empty object
//	settle    its networks are whole, callers return, and rest       programs.Settled
//	idle      how many goroutines an idle process has                idle
//	end       the clients close, and the process ends                the problems of that
type worker struct {
	job
	recorder *history.Recorder
	before   goleak.Option // ignores the goroutines that are not the worker's
	ctx      context.Context
	crew     sync.WaitGroup

	ready   chan struct{}     // closed when the clients are there
	process *programs.Process // nil if the worker ended before
	first   int               // goroutines when the clients had connected
}

// A job is the work of one life of a worker.
type job struct {
	Addresses []stage.Address
	Seed      uint64 // the seed of the world, which all workers share
	Worker    int    // its number, from 0
	Life      int    // how often it was killed before
	Names     int    // the number of locks that it wants beside the common ones: each has a goroutine
	Lease     time.Duration
	History   string // the file to write
}

// An idle is the answer to the word idle.
type idle struct{ Goroutines, AtFirst int }

// name returns the name of the process in the history.
func (j job) name() string { return fmt.Sprintf("w%d.%d", j.Worker, j.Life) }

const (
	// role is set in the environment of a process that is a worker.
	role = "RLOCK_TORTURE_WORKER=1"
	// hungAfter is how long a call may go on with nothing broken any more: all leases have ended by
	// then, and a fallback poll or two.
	hungAfter = 2 * time.Minute
	// linger is how long goroutines of a closed rueidis client may take to end: it keeps the
	// connections of a former topology for five seconds, and a machine may be busy.
	linger = 40 * time.Second
)

// workerCommand returns a function that makes the command of a worker: that program, which calls
// asWorker, or this one for "".
func workerCommand(program string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		cmd, err := redistest.Self(role)
		if err == nil && program != "" {
			cmd.Path, cmd.Args[0] = program, program
		}
		return cmd, err
	}
}

// asWorker runs a worker, if this process is one, and exits. Otherwise it returns at once.
func asWorker() {
	name, value, _ := strings.Cut(role, "=")
	if os.Getenv(name) != value {
		return
	}
	if err := work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work does one job, and then obeys the words that it reads.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("worker: no job: %w", io.ErrUnexpectedEOF)
	}
	w := &worker{before: goleak.IgnoreCurrent(), ready: make(chan struct{})}
	if err := json.Unmarshal(lines.Bytes(), &w.job); err != nil {
		return fmt.Errorf("worker: job: %w", err)
	}
	var err error
	if w.recorder, err = history.Create(w.History, w.name()); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(context.Background())
	defer cancel() // also when its parent is gone
	w.crew.Go(func() { w.recorder.Pulse(w.ctx) })
	w.crew.Go(w.connect)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var answer any = struct{}{}
		there := w.there()
		switch word := lines.Text(); word {
		case "storm":
			if there {
				w.process.Storm()
			}
		case "settle":
			answer = programs.Settled{Hung: []string{"New by " + w.name()}}
			if there {
				answer = w.process.Settle(hungAfter)
			}
		case "idle":
			answer = idle{runtime.NumGoroutine(), w.first}
		case "end":
			cancel()
			return answers.Encode(w.end(there))
		default:
			return fmt.Errorf("worker: unknown word %q", word)
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return lines.Err()
}

// connect begins the process, as soon as its servers let it, and its first storm.
func (w *worker) connect() {
	defer close(w.ready)
	ground := programs.Ground{Name: w.name(), Recorder: w.recorder, First: (100*w.Worker + w.Life + 1) * 10_000_000}
	for _, a := range w.Addresses {
		ground.Servers = append(ground.Servers, programs.Server{
			Option: a.Option(),
			Dial:   func(address string) (net.Conn, error) { return net.Dial("tcp", address) },
		})
	}
	process, err := programs.Begin(w.ctx, programs.Endless(w.Seed, len(w.Addresses), w.Names, w.Lease, !w.Addresses[0].Single), ground, w.Seed<<16|uint64(w.Worker)<<8|uint64(w.Life))
	if err != nil {
		return
	}
	w.process, w.first = process, runtime.NumGoroutine()
	process.Storm()
}

// there waits until the process has begun, and reports whether it has.
func (w *worker) there() bool {
	select {
	case <-w.ready:
		return w.process != nil
	case <-time.After(hungAfter):
		return false
	}
}

// end ends the worker, which is at rest, and looks for leftovers.
func (w *worker) end(there bool) (problems []string) {
	if there {
		problems = w.process.End()
	}
	w.crew.Wait()
	var left error
	for deadline := time.Now().Add(linger); time.Now().Before(deadline); {
		if left = goleak.Find(w.before); left == nil { // Find waits a little itself
			break
		}
	}
	if left != nil {
		problems = append(problems, left.Error())
	}
	if err := w.recorder.Close(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}
