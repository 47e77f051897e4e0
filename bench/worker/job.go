package worker

import "time"

// Kind is the work of a worker.
type Kind string

const (
	Loop     Kind = "loop"     // every goroutine: lock, section, unlock, again
	Nest     Kind = "nest"     // as Loop, Depth deep
	Handover Kind = "handover" // two processes take turns
	Hold     Kind = "hold"     // take Locks locks, then do nothing
)

// A Job is the work of one process of a measurement.
type Job struct {
	Kind      Kind
	Contender string
	Lock      string        // the kind of the contender's lock, for programs that have several
	Addr      string        // of Redis, or of the proxy in front of it
	Addrs     []string      // of all servers, Addr the first of them
	Lease     time.Duration // 0: the contender's default
	Prefix    string        // of the names of locks
	Ground    string        // file to map

	Process   int // its number among Processes, from 0
	Processes int

	Goroutines int           // in this process
	Locks      int           // names in use, by all processes together
	WarmUp     int           // how often a program that gets faster takes a lock before its first job
	Section    time.Duration // how long the lock is held
	Pause      time.Duration // Loop: the longest pause after a section; each is a random part of it
	Reads      int           // percent of the sections of a Loop that share the lock with other readers
	Depth      int           // Nest: levels

	Duration time.Duration // of the window
	Stall    time.Duration // in the drain: the time without a section; Hold: a multiple of it without a lock taken
	Drain    time.Duration // the longest drain
}

// A Report is the result of a worker.
type Report struct {
	Process  int
	Sections int64         // that ended in the window
	Elapsed  time.Duration // the window
	CPU      time.Duration // user and system, in the window

	Wait     Latency // from the call of Lock to its return
	Pair     Latency // Lock and Unlock together, without the section
	Nested   Latency // Nest: a pair inside the outermost
	Handover Latency // from the start of an Unlock to another process holding the lock
	Turns    Latency // of a Lock: how many sections began from its call to its own, that included: counts

	Least, Most int64 // sections of the goroutines that had the fewest and the most

	Overlaps     int64  // times a section began while another was under way
	Failures     int64  // of Lock and Unlock
	FirstFailure string // the first error
	Stuck        int64  // waiters that were never woken
	Cut          int64  // waiters that still waited at the end of the drain

	// Hold: the cost of a held lock, the number of lost holds, and of Unlocks that did not
	// return in time.
	BytesPerLock float64
	Goroutines   int // more than before the locks were taken
	Lost, Kept   int64
}
