package report

import (
	"fmt"
	"math"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
)

// A target is a figure that the library must reach, in one run on one machine.
type target struct {
	what, must string
	// reached returns the figure as text and whether it is good enough. It is called only if
	// the library has a result.
	reached func(r *Report, ours *arena.Result) (got string, ok bool)

	scenario, setting, network string
	who                        string
}

const ours = "rlock"

var targets = append([]target{
	{"uncontended lock + unlock, time beside the floor's", "at most 1.10 x two raw EVALSHA, pipelined", timesFloor(1.10), "beside", "1 goroutine", "loopback", ours},
	{"the same, beside a default client's", "at most 1.10 x two raw EVALSHA in the caller's goroutine", timesFloor(1.10), "beside", "1 goroutine, default client", "loopback", ours},
	{"64 goroutines on 64 locks, throughput beside the floor's", "at least 0.90 x the same, raw", shareOfFloor, "beside", "64 goroutines, 64 locks", "loopback", ours},
	{"nested pair, p50", "under 1 µs", nestedUnder(time.Microsecond), "nested", "depth 5", "loopback", ours},
	{"TryLock on a lock that this process holds, p50", "under 300 ns", nestedUnder(300 * time.Nanosecond), "try", "1 goroutine tries", "loopback", ours},
	{"100 goroutines, one process, empty section", "500 000 a second and 50 x the best peer", rate(500_000, 50), "one-process", "100 goroutines, empty sections", "loopback", ours},
	{"4 x 32, 50 µs sections, 0.5 ms: throughput", "5 000 a second and 10 x the best peer", rate(5_000, 10), "four-processes", "4 x 32, 50µs sections", "0.5ms", ours},
	{"4 x 32, 50 µs sections, 0.5 ms: p99 wait", "under 150 ms", func(_ *Report, r *arena.Result) (string, bool) {
		return duration(r.Wait.P99), r.Wait.P99 < 150*time.Millisecond
	}, "four-processes", "4 x 32, 50µs sections", "0.5ms", ours},
	{"4 x 32, 50 µs sections, 0.5 ms: smallest share of a process", "at least 0.7 of the largest", processShare(0.7), "four-processes", "4 x 32, 50µs sections", "0.5ms", ours},
	{"hand-over between processes, 0.5 ms, p50", "at most 2.1 round trips", roundTrips(2.1), "handover", "2 processes in turn", "0.5ms", ours},
	{"hand-over between processes, 2 ms, p50", "at most 2.1 round trips", roundTrips(2.1), "handover", "2 processes in turn", "2ms", ours},
	{"100 000 held leases", "client below 2 % of a core, Redis below 3 %, none lost", func(_ *Report, r *arena.Result) (string, bool) {
		lost := max(r.Gone, r.LostHolds)
		return fmt.Sprintf("client %s, Redis %s, %d lost", core(r.ClientCPU, r.Elapsed), core(r.RedisCPU, r.Elapsed), lost),
			r.ClientCPU.Seconds() < 0.02*r.Elapsed.Seconds() && r.RedisCPU.Seconds() < 0.03*r.Elapsed.Seconds() && lost == 0
	}, "hold", "100 000 locks, 30s lease", "loopback", ours},

	{"fair lock, 8 x 16, 0.5 ms: hand-over, p50", "at most 1.2 round trips", roundTrips(1.2), "fair", "8 x 16, empty sections", "0.5ms", "rlock-fair"},
	{"the same: commands a section, of all clients", "at most 1.1", commands(1.1), "fair", "8 x 16, empty sections", "0.5ms", "rlock-fair"},
	{"the same: smallest share of a process", "at least 0.95 of the largest", processShare(0.95), "fair", "8 x 16, empty sections", "0.5ms", "rlock-fair"},
	{"64 goroutines reading under one read lock: commands a section", "at most 0.1", commands(0.1), "read-write", "64 readers, empty sections", "loopback", "rlock-rw"},
	{"RedLock over five servers, 0.5 ms: time beside the floor's", "at most 1.3 x two raw round trips to a majority", timesFloor(1.3), "majority", "5 servers", "0.5ms", "rlock-redlock"},
	{"the same, 1 to 5 ms", "at most 1.3 x two raw round trips to a majority", timesFloor(1.3), "majority", "5 servers", "1 to 5ms", "rlock-redlock"},
}, fleetTargets()...)

// Missed returns how many targets were measured, and how many of them missed.
func (r *Report) Missed() (measured, missed int) {
	for _, t := range targets {
		if res := r.find(t.scenario, t.setting, t.network, t.who); res != nil {
			measured++
			if _, ok := t.reached(r, res); !ok {
				missed++
			}
		}
	}
	return measured, missed
}

func (r *Report) targets() table.Writer {
	w := table.NewWriter()
	w.SetStyle(table.StyleLight)
	w.AppendHeader(table.Row{"", "must", "is", ""})
	for _, t := range targets {
		if !r.asked(t.scenario) {
			continue
		}
		res := r.find(t.scenario, t.setting, t.network, t.who)
		if res == nil {
			w.AppendRow(table.Row{t.what, t.must, "", "not measured"})
			continue
		}
		got, ok := t.reached(r, res)
		verdict := "reached"
		if !ok {
			verdict = "**missed**"
		}
		w.AppendRow(table.Row{t.what, t.must, got, verdict})
	}
	return w
}

// timesFloor limits the median over blocks, in multiples of the floor's time.
func timesFloor(most float64) func(*Report, *arena.Result) (string, bool) {
	return func(_ *Report, res *arena.Result) (string, bool) {
		times := 1 / res.BesideAt(50)
		return fmt.Sprintf("%.2f x (%.2f to %.2f: p10 and p90 of %d blocks)", times, 1/res.BesideAt(90), 1/res.BesideAt(10), len(res.Beside)), times <= most
	}
}

func shareOfFloor(_ *Report, res *arena.Result) (string, bool) {
	share := res.BesideAt(50)
	return fmt.Sprintf("%.2f x (%.2f to %.2f: p10 and p90 of %d blocks)", share, res.BesideAt(10), res.BesideAt(90), len(res.Beside)), share >= 0.90
}

func nestedUnder(limit time.Duration) func(*Report, *arena.Result) (string, bool) {
	return func(_ *Report, res *arena.Result) (string, bool) {
		return duration(res.Nested.P50), res.Nested.Count > 0 && res.Nested.P50 < limit
	}
}

// rate requires so many sections a second, and so many times those of the best peer.
func rate(least, times float64) func(*Report, *arena.Result) (string, bool) {
	return func(r *Report, res *arena.Result) (string, bool) {
		best := r.best(res)
		if best == nil {
			return number(res.Rate()) + " a second (no peer)", false
		}
		got := res.Rate() / best.Rate()
		return fmt.Sprintf("%s a second, %.2f x %s (%s)", number(res.Rate()), got, best.Contender, number(best.Rate())),
			res.Rate() >= least && got >= times
	}
}

// best returns the fastest peer that excluded, in the cell of res.
func (r *Report) best(res *arena.Result) (best *arena.Result) {
	for _, other := range r.of(res.Scenario, res.Setting, res.Network) {
		c, err := contender.Find(other.Contender)
		if err != nil || !c.Peer || other.Sections == 0 || other.Overlaps > 0 {
			continue
		}
		if best == nil || other.Rate() > best.Rate() {
			best = other
		}
	}
	return best
}

func roundTrips(most float64) func(*Report, *arena.Result) (string, bool) {
	return func(_ *Report, res *arena.Result) (string, bool) {
		if res.RoundTrip == 0 || res.Handover.Count == 0 {
			return "no hand-over seen", false
		}
		n := res.Handover.P50.Seconds() / res.RoundTrip.Seconds()
		return fmt.Sprintf("%.2f (%s)", n, duration(res.Handover.P50)), !math.IsNaN(n) && n <= most
	}
}

func commands(most float64) func(*Report, *arena.Result) (string, bool) {
	return func(_ *Report, res *arena.Result) (string, bool) {
		each := res.Each(float64(res.Sent))
		return fmt.Sprintf("%.3f", each), each <= most
	}
}

func processShare(least float64) func(*Report, *arena.Result) (string, bool) {
	return func(_ *Report, res *arena.Result) (string, bool) {
		return small(res.ProcessShare()), res.ProcessShare() >= least
	}
}
