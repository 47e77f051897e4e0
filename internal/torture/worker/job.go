package worker

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A Job is the work of one life of a worker.
type Job struct {
	Address    stage.Address
	Seed       uint64
	Worker     int // its number, from 0
	Life       int // how often it was killed before
	Goroutines int
	Names      []string // of the locks
	Wide       int      // how many names the worker wants besides, and how many goroutines it has for them
	Kinds      []string // of lock, plain if empty
	Lease      time.Duration
	Losses     Losses        // how the client learns of losses
	Section    time.Duration // the usual bound of a hold, 0 for the default
	History    string        // the file to write; none if empty
}

// Name returns the name of the process in the history.
func (j Job) Name() string { return fmt.Sprintf("w%d.%d", j.Worker, j.Life) }

// Done is the answer to storm.
type Done struct{}

// Settled is the answer to settle: the counts since the storm began.
type Settled struct {
	Calls    int64 // of all methods that take a lock
	Acquired int64
	Lost     int64 // losses reported, by Done or by the call that gave the lock back
	Longest  Wait  // of the calls that acquired
	Most     int64 // levels that were held at once, since the worker began
	Cancels  Cancels
	Hung     []string // calls that are not cancelled and do not return
}

// A Wait is the length of a wait, with its owner and its lock.
type Wait struct {
	For time.Duration
	Who string
}

// Cancels are the calls whose context ended before they had the lock: the delay of each
// return, and that of a goroutine that only waited for the same context. The second is the
// machine's share.
type Cancels struct {
	Calls, Bare []time.Duration
}

// Idle is the answer to idle.
type Idle struct {
	Goroutines int
	AtFirst    int // after the client had locked once
}

// Ended is the answer to end.
type Ended struct {
	Closed string // the error of Close
	Left   string // the goroutines that are left
}

// Err returns the failure, if there is one.
func (e Ended) Err() error {
	if e.Closed == "" && e.Left == "" {
		return nil
	}
	return fmt.Errorf("worker: closed while nothing is broken: %s%s", e.Closed, e.Left)
}
