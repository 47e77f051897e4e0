package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A process is a worker. Its methods may be called concurrently, but one fault meets it at a time.
type process struct {
	number int
	locks  place // its way to the lock
	said   *ledger

	*redistest.Process // its input's end is the worker's

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
	p.Process, err = redistest.Start(command, func(line string) { p.said.add(line, time.Now()) })
	return err
}

// stop suspends the worker, and returns what resumes it.
func (p *process) stop() (resume func()) {
	process := p.Process
	if err := process.Suspend(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return func() { _ = process.Resume() }
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
