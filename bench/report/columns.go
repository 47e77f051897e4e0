package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/worker"
)

// A column is one figure of a result, as text.
type column struct {
	title string
	value func(*arena.Result) string
}

// columns are the figures by the names that scenarios ask for them.
var columns = map[string][]column{
	"pair":     append([]column{quarter}, percentiles("lock+unlock", func(r *arena.Result) worker.Latency { return r.Pair })...),
	"wait":     percentiles("wait", func(r *arena.Result) worker.Latency { return r.Wait }),
	"nested":   percentiles("each", func(r *arena.Result) worker.Latency { return r.Nested }),
	"handover": percentiles("hand-over", func(r *arena.Result) worker.Latency { return r.Handover }),

	"round trips": {{"p50 in round trips", func(r *arena.Result) string {
		if r.Handover.Count == 0 || r.RoundTrip == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", r.Handover.P50.Seconds()/r.RoundTrip.Seconds())
	}}},
	"rate":       {{"a second", func(r *arena.Result) string { return number(r.Rate()) }}},
	"sent":       {{"commands", func(r *arena.Result) string { return small(r.Each(float64(r.Sent))) }}},
	"client cpu": {{"client CPU", func(r *arena.Result) string { return microseconds(r.Each(r.ClientCPU.Seconds())) }}},
	"redis cpu":  {{"Redis CPU", func(r *arena.Result) string { return microseconds(r.Each(r.RedisCPU.Seconds())) }}},

	"rounds":     {{"wait p99 in rounds", func(r *arena.Result) string { return small(r.Rounds99()) }}},
	"turns":      {{"the same by sections", func(r *arena.Result) string { return small(r.Turns99()) }}},
	"redis time": {{"Redis' time", func(r *arena.Result) string { return microseconds(r.Each(r.Served.Seconds())) }}},

	"process share":   {{"process share", func(r *arena.Result) string { return small(r.ProcessShare()) }}},
	"goroutine share": {{"goroutine share", func(r *arena.Result) string { return small(r.GoroutineShare()) }}},

	"client core": {{"client CPU", func(r *arena.Result) string { return core(r.ClientCPU, r.Elapsed) }}},
	"redis core":  {{"Redis CPU", func(r *arena.Result) string { return core(r.RedisCPU, r.Elapsed) }}},
	"renewals": {{"commands a second", func(r *arena.Result) string {
		return number(float64(r.Sent) / r.Elapsed.Seconds())
	}}},
	"memory":     {{"bytes a lock", func(r *arena.Result) string { return number(r.BytesPerLock) }}},
	"goroutines": {{"goroutines", func(r *arena.Result) string { return number(float64(r.Goroutines)) }}},
	"latest":     {{"latest renewal", func(r *arena.Result) string { return small(r.Latest) }}},
	"lost":       {{"lost", func(r *arena.Result) string { return number(float64(max(r.Gone, r.LostHolds))) }}},

	"faults": {{"faults", Faults}},
}

// quarter is a percentile on which a busy machine has less influence than on the median.
var quarter = column{"lock+unlock p25", func(r *arena.Result) string {
	if r.Pair.P25 > 0 {
		return duration(r.Pair.P25)
	}
	return "-"
}}

func percentiles(what string, of func(*arena.Result) worker.Latency) []column {
	at := func(title string, q func(worker.Latency) time.Duration) column {
		return column{what + " " + title, func(r *arena.Result) string {
			if l := of(r); l.Count > 0 {
				return duration(q(l))
			}
			return "-"
		}}
	}
	return []column{
		at("p50", func(l worker.Latency) time.Duration { return l.P50 }),
		at("p99", func(l worker.Latency) time.Duration { return l.P99 }),
		at("p99.9", func(l worker.Latency) time.Duration { return l.P999 }),
	}
}

// Faults lists the failures.
func Faults(r *arena.Result) string {
	var all []string
	add := func(n int64, one, many string) {
		switch {
		case n == 1:
			all = append(all, "1 "+one)
		case n != 0:
			all = append(all, number(float64(n))+" "+many)
		}
	}
	add(r.Overlaps, "OVERLAP", "OVERLAPS")
	add(r.Stuck, "never woken", "never woken")
	add(r.Failures, "failure", "failures")
	add(r.Cut, "still waiting", "still waiting")
	add(r.KeptHolds, "not given back", "not given back")
	if r.Error != "" {
		all = append(all, "ended: "+r.Error)
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// duration writes three digits.
func duration(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		if d >= 100*unit {
			return d.Round(unit).String()
		}
		if d >= 10*unit {
			return d.Round(max(1, unit/10)).String()
		}
		if d >= unit {
			return d.Round(max(1, unit/100)).String()
		}
	}
	return "0"
}

func microseconds(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return "-"
	}
	return duration(time.Duration(seconds * float64(time.Second)))
}

// small writes two decimals.
func small(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// number writes a count with its thousands apart.
func number(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func core(used, elapsed time.Duration) string {
	if elapsed == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*used.Seconds()/elapsed.Seconds())
}
