package sim

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/internal/core"
)

// A Fleet is the setup of a simulation.
type Fleet struct {
	Clients int // processes
	Callers int // goroutines of each; 0: one
	Names   int // of locks; 0: one
	Shards  int // of Redis; 0: one
	Home    int // per cent of the sections that are for one of the client's own names; the others are for any name

	Section  time.Duration // how long a lock is held
	Begin    time.Duration // the time in which all callers begin, evenly; 0: after a pause, or without pauses within a millisecond
	Pause    time.Duration // between two sections of a caller: the mean of an exponential distribution
	Overhead time.Duration // processor time of a client for a section
	Linger   time.Duration // Config.Linger; 0: not at all
	Strict   bool          // a fair lock

	Network  Network
	Stalls   Stalls
	Failover Failover
	Polling  *Polling // clients that poll, in place of rlock's

	Claim, Look time.Duration // that of the protocol for 0

	Costs cost.Table
	Warm  time.Duration // is not measured
	For   time.Duration // is
	Seed  uint64
}

// A Network delays messages, each way.
type Network struct {
	OneWay   time.Duration
	Jitter   time.Duration // more: the mean of an exponential distribution
	Tail     float64       // how often a packet takes TailTime more, as one that is sent again
	TailTime time.Duration
}

// Stalls are times in which a client does nothing.
type Stalls struct {
	Every time.Duration // of one client: the mean; 0: never
	For   time.Duration // how long each is
}

// A Failover is that of the first shard.
type Failover struct {
	At  time.Duration // of the simulation; 0: none
	For time.Duration // how long no command is executed
	Lag time.Duration // how much the replica lacks that takes over
}

// A Polling is a client that takes the lock with SET NX PX, and tries again after a delay.
type Polling struct {
	Least, Most time.Duration // between two tries: even
	Lease       time.Duration
}

// A Shard is the work of one server in the time that was measured.
type Shard struct {
	Commands int
	Busy     time.Duration
	Backlog  time.Duration // the longest time that a command has waited for those before it
}

// A Result has the figures of a simulation.
type Result struct {
	Fleet       *Fleet
	Sections    int                     // that have ended
	Wait        *hdrhistogram.Histogram // of Lock, in microseconds; with those that wait at the end
	Waiting     int                     // at the end
	Commands    int
	Messages    int
	Shards      []Shard
	Losses      int // holds that ended before their Unlock
	Overlaps    int // holds that began while another client believed to hold the lock
	Least, Most int // sections of the client that had the fewest, and the most
	Events      int
	PerSecond   []int // sections in each second of the simulation, from its begin
}

// Rate returns the sections a second.
func (r *Result) Rate() float64 { return float64(r.Sections) / r.Fleet.For.Seconds() }

// Idle returns the share of the time in which the only lock is not used: it passes on, or its holder stalls.
func (r *Result) Idle() float64 { return 1 - r.Rate()*r.Fleet.Section.Seconds() }

// Quantile returns a quantile of the wait, in per cent.
func (r *Result) Quantile(q float64) time.Duration {
	return time.Duration(r.Wait.ValueAtQuantile(q)) * time.Microsecond
}

// Each returns the commands a section.
func (r *Result) Each() float64 { return float64(r.Commands) / float64(max(r.Sections, 1)) }

// Backlog returns the longest time that a command has waited for those before it.
func (r *Result) Backlog() (longest time.Duration) {
	for _, s := range r.Shards {
		longest = max(longest, s.Backlog)
	}
	return longest
}

// Fullest returns the share of its time in which the busiest shard executes.
func (r *Result) Fullest() float64 {
	var most time.Duration
	for _, s := range r.Shards {
		most = max(most, s.Busy)
	}
	return most.Seconds() / r.Fleet.For.Seconds()
}

// config is what package driver tells package core about a client.
func (f *Fleet) config() core.Config {
	const ms = core.Span(time.Millisecond)
	claim, look := or(core.Span(f.Claim), claimLease), or(core.Span(f.Look), claimLease)
	return core.Config{
		Lease: 30_000 * ms, Claim: claim, QueueTime: 60_000 * ms, Margin: 12 * ms,
		LookTime: look, Slack: ms, Retry: 10 * ms, MaxRetry: 500 * ms, FirstPoll: ms, LastPoll: 128 * ms,
		Silence: 250 * ms, Patience: 250 * ms, LeastWait: 5 * ms, ReadersTime: 1000 * ms, ShortSection: 50 * ms,
		HandoffLimit: 16, HandoffTime: 10 * ms,
		Foreign: core.ForeignConfig{WindowLook: 5 * ms, Look: 100 * ms, SilentLook: 2 * ms, Noise: 20 * ms, SilentNoise: 4 * ms, LongLease: 24 * 3600 * 1000 * ms},
	}
}

// claimLease is the claim of the protocol.
const claimLease = core.Span(2 * time.Second)

func or(d, otherwise core.Span) core.Span {
	if d > 0 {
		return d
	}
	return otherwise
}
