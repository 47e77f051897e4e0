package worker

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A Job is what one life of a worker is to do.
type Job struct {
	Address    stage.Address
	Seed       uint64
	Worker     int // which it is, from 0
	Life       int // how often it was killed before
	Goroutines int
	Names      []string // of the locks
	Kinds      []string // of lock, plain if empty
	Lease      time.Duration
	Linger     time.Duration // of the client's locks, 0 for not at all
	Losses     Losses        // how the client learns of them
	Section    time.Duration // how long most holds last at most, 0 for the default
	History    string        // the file to write; none if empty
	Calm       bool          // nobody gives up, nothing is lost: the watchdog keeps each lock, and all work is short
}

// Name is what the history calls the process.
func (j Job) Name() string { return fmt.Sprintf("w%d.%d", j.Worker, j.Life) }

// Done is the answer to storm.
type Done struct{}

// Settled is the answer to settle: what happened since the storm began.
type Settled struct {
	Calls    int64 // of all methods that take a lock
	Acquired int64
	Lost     int64 // losses told, by Done or by the call that gave it back
	Longest  Wait  // of those that acquired
	Cancels  Cancels
	Hung     []string // calls that nobody cancelled and that do not return
}

// A Wait is how long somebody waited, and who for what.
type Wait struct {
	For time.Duration
	Who string
}

// Cancels are the calls whose context ended before they had the lock: how late
// each returned, and how late a goroutine was that did nothing but wait for the
// same context. The second is the machine's share.
type Cancels struct {
	Calls, Bare []time.Duration
}

// Idle is the answer to idle.
type Idle struct {
	Goroutines int
	AtFirst    int // after the client had locked once
	Heap       uint64
}

// Ended is the answer to end.
type Ended struct {
	Closed string // the error of Close
	Left   string // the goroutines that are left
}

// Err is what went wrong.
func (e Ended) Err() error {
	if e.Closed == "" && e.Left == "" {
		return nil
	}
	return fmt.Errorf("worker: closed while nothing is broken: %s%s", e.Closed, e.Left)
}
