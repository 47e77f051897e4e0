package arena

import (
	"math"
	"time"

	"github.com/go-rlock/rlock/bench/worker"
)

// A Result is one contender's figures in one cell, over all its rounds.
type Result struct {
	Scenario, Setting, Network string
	RoundTrip                  time.Duration // of the network, as measured
	Contender                  string

	// Skipped is the reason why the contender takes no part, Error the error of a
	// measurement; then the figures are those of the rounds before.
	Skipped, Error string `json:",omitempty"`

	Job       worker.Job
	Rounds    int
	Took      time.Duration // all of it, with the start of the processes, and the drain
	PerSecond []float64     // sections, of each round
	Elapsed   time.Duration // of all windows together
	Sections  int64

	Wait, Pair, Nested, Handover, Turns worker.Latency // see worker.Report

	Commands            map[string]int64 // of the scripts as well: INFO commandstats
	Sent                int64            // those that the client sent
	Served              time.Duration    // the processor time of Redis for those
	ClientCPU, RedisCPU time.Duration

	Fewest, Most                   int64   // sections of a process
	FewestGoroutine, MostGoroutine int64   // and of a goroutine
	Overlaps                       int64   // the lock did not exclude
	Failures                       int64   // of Lock and Unlock
	FirstFailure                   string  `json:",omitempty"`
	Stuck                          int64   // waiters never woken
	Cut                            int64   // waiters that still waited at the end of the drain
	BytesPerLock                   float64 `json:",omitempty"`
	Goroutines                     int     `json:",omitempty"`
	Latest                         float64 `json:",omitempty"` // age of the oldest lease seen, as a share of the lease
	Gone                           int64   // keys of held locks that were missing at the end
	LostHolds                      int64   // holds whose Unlock failed
	KeptHolds                      int64   `json:",omitempty"` // holds whose Unlock did not return in time
}

// Rate is sections a second.
func (r Result) Rate() float64 {
	if r.Elapsed == 0 {
		return 0
	}
	return float64(r.Sections) / r.Elapsed.Seconds()
}

// Each divides by the number of sections.
func (r Result) Each(total float64) float64 {
	if r.Sections == 0 {
		return math.NaN()
	}
	return total / float64(r.Sections)
}

// Rounds99 is the 99th percentile of the wait, in rounds: a round is the time of as many
// sections as there are goroutines, and so the wait of a goroutine that lets every other one
// pass once.
func (r Result) Rounds99() float64 {
	if r.Sections == 0 || r.Wait.Count == 0 {
		return math.NaN()
	}
	round := float64(r.Job.Processes*r.Job.Goroutines) / r.Rate()
	return r.Wait.P99.Seconds() / round
}

// Turns99 is the 99th percentile of the number of sections that begin during a wait, in
// rounds: Rounds99 without the times at which the machine did something else.
func (r Result) Turns99() float64 {
	if r.Turns.Count == 0 {
		return math.NaN()
	}
	return float64(r.Turns.P99) / float64(r.Job.Processes*r.Job.Goroutines)
}

// ProcessShare is the number of sections of the process that had the fewest, as a share of
// those of the one that had the most; GoroutineShare is the same for goroutines.
func (r Result) ProcessShare() float64   { return share(r.Fewest, r.Most) }
func (r Result) GoroutineShare() float64 { return share(r.FewestGoroutine, r.MostGoroutine) }

func share(fewest, most int64) float64 {
	if most == 0 {
		return math.NaN()
	}
	return float64(fewest) / float64(most)
}

// add adds a round.
func (r *Result) add(reports []worker.Report, cost snapshot, sends []string) error {
	var sections, fewest, most int64
	var elapsed time.Duration
	fewest = math.MaxInt64
	fewestGoroutine, mostGoroutine := int64(math.MaxInt64), int64(0)
	for _, p := range reports {
		var err error
		for _, l := range []struct {
			into *worker.Latency
			from worker.Latency
		}{{&r.Wait, p.Wait}, {&r.Pair, p.Pair}, {&r.Nested, p.Nested}, {&r.Handover, p.Handover}, {&r.Turns, p.Turns}} {
			if *l.into, err = l.into.Merge(l.from); err != nil {
				return err
			}
		}
		sections += p.Sections
		elapsed = max(elapsed, p.Elapsed)
		fewest, most = min(fewest, p.Sections), max(most, p.Sections)
		fewestGoroutine, mostGoroutine = min(fewestGoroutine, p.Least), max(mostGoroutine, p.Most)
		r.ClientCPU += p.CPU
		r.Overlaps += p.Overlaps
		r.Failures += p.Failures
		if r.FirstFailure == "" {
			r.FirstFailure = p.FirstFailure
		}
		r.Stuck += p.Stuck
		r.Cut += p.Cut
		r.BytesPerLock, r.Goroutines = p.BytesPerLock, p.Goroutines
		r.LostHolds += p.Lost
		r.KeptHolds += p.Kept
	}
	r.Rounds++
	r.Sections += sections
	r.Elapsed += elapsed
	r.PerSecond = append(r.PerSecond, float64(sections)/elapsed.Seconds())
	r.Fewest += fewest
	r.Most += most
	r.FewestGoroutine += fewestGoroutine
	r.MostGoroutine += mostGoroutine
	r.RedisCPU += cost.cpu
	if r.Commands == nil {
		r.Commands = make(map[string]int64)
	}
	for command, calls := range cost.calls {
		r.Commands[command] += calls
	}
	for _, command := range sends {
		r.Sent += cost.calls[command]
		r.Served += cost.times[command]
	}
	return nil
}
