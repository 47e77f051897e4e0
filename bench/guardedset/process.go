package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/internal/suspend"
)

// A process is a worker. Its methods may be called concurrently, but one fault meets it at a time.
type process struct {
	number int
	locks  place // its way to the lock
	said   *ledger

	command *exec.Cmd
	input   io.Closer     // its end is the worker's
	gone    chan struct{} // closed when the process has ended

	mu   sync.Mutex // protects following
	busy bool       // a fault is under way
}

// start starts the worker's process.
func (p *process) start(r *run) error {
	text, err := json.Marshal(job{
		Library: r.form.Library, Form: r.form.Form, Worker: strconv.Itoa(p.number), Name: name, Locks: p.locks, Data: r.dataAt,
		Lease: r.lease, Think: think, Resource: resource, Read: read, Write: write,
	})
	if err != nil {
		return err
	}
	command, err := r.form.command()
	if err != nil {
		return err
	}
	command.Env = append(os.Environ(), role+"="+string(text))
	command.SysProcAttr = arena.Ours()
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("guardedset: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			p.said.add(lines.Text(), time.Now())
		}
		_ = command.Wait() // most are killed
	}()
	p.command, p.input, p.gone = command, input, gone
	return nil
}

// stop suspends the worker, and returns what resumes it.
func (p *process) stop() (resume func()) {
	process := p.command.Process
	if err := suspend.Process(process); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return func() { _ = suspend.Resume(process) }
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.gone
}

// end lets the worker end, and kills it if it does not.
func (p *process) end() {
	_ = p.input.Close()
	select {
	case <-p.gone:
	case <-time.After(3 * time.Second):
		p.kill()
	}
}

func (p *process) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.busy
	p.busy = true
	return !was
}

func (p *process) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
}

// A ledger has the acknowledged writes. Its methods may be called concurrently.
type ledger struct {
	mu     sync.Mutex // protects following
	writes map[string]bool
	by     map[string]bool // the workers
	last   time.Time       // of a write
	gap    time.Duration   // the longest time without one
}

func newLedger() *ledger { return &ledger{writes: make(map[string]bool), by: make(map[string]bool)} }

func (l *ledger) add(write string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gap = max(l.gap, now.Sub(l.last))
	worker, _, _ := strings.Cut(write, ".")
	l.writes[write], l.by[worker], l.last = true, true, now
}

// heard is the number of the workers that have written.
func (l *ledger) heard() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.by)
}

// begin forgets the longest gap, and returns how many writes there are.
func (l *ledger) begin(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.gap = now, 0
	return len(l.writes)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.writes)
}

// longest returns the longest time without a write until now.
func (l *ledger) longest(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.gap, now.Sub(l.last))
}

// missing counts the writes of the ledger that the resource does not have.
func (l *ledger) missing(have []string) int {
	there := make(map[string]bool, len(have))
	for _, write := range have {
		there[write] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for write := range l.writes {
		if !there[write] {
			n++
		}
	}
	return n
}
