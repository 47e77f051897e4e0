package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/bench/fleet/sim"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest/standin"
)

// A realFleet is one that this machine can run, as it was measured.
type realFleet struct {
	Contender, Network string
	Processes, Callers int
	Section            time.Duration
	RoundTrip          time.Duration // of a command of a client that has slept: the median of the rounds
	Slept              time.Duration // what time.Sleep took for the section: the mean, after each round, and the median of the rounds
	Load               string        // of the machine, before each round
	Rates              []float64     // of the rounds
	P50, P99           time.Duration // of the wait, over all rounds
	Handover           time.Duration // from an Unlock to the next process' hold: the median
	Commands           float64       // a section
	RedisCPU           time.Duration // a section
}

// rate returns the median of the rounds.
func (f *realFleet) rate() float64 { return median(f.Rates) }

func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

// realFleets returns the fleets to measure, in order.
func realFleets() (all []realFleet) {
	for _, network := range []string{"loopback", "0.5ms"} {
		for _, n := range [][2]int{{2, 1}, {8, 1}, {2, 8}, {8, 8}, {4, 32}} {
			for _, section := range []time.Duration{0, ms, 5 * ms} {
				all = append(all, realFleet{Contender: "rlock", Network: network, Processes: n[0], Callers: n[1], Section: section})
				if n == [2]int{8, 1} {
					all = append(all, realFleet{Contender: "redislock-5ms", Network: network, Processes: n[0], Callers: n[1], Section: section})
				}
			}
		}
	}
	return all
}

// measureReal measures the real fleets, round after round, and writes real.json.
func measureReal(ctx context.Context, out string, rounds int, progress func(string)) error {
	a, err := arena.Open(ctx, "")
	if err != nil {
		return err
	}
	defer a.Close()
	clock, err := startSleeper()
	if err != nil {
		return err
	}
	defer clock.stop()
	all := realFleets()
	results := make([]*arena.Result, len(all))
	trips, slept := make([][]time.Duration, len(all)), make([][]time.Duration, len(all))
	for range rounds {
		for i := range all {
			f := &all[i]
			c, err := contender.Find(f.Contender)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(scenario.Networks(), func(n scenario.Network) bool { return n.Name == f.Network })
			cell := scenario.Cell{Scenario: "fleet", Network: scenario.Networks()[at], Pause: 2 * ms, Job: worker.Job{
				Kind: worker.Loop, Processes: f.Processes, Goroutines: f.Callers, Clients: 1, Locks: 1, Section: f.Section,
				Duration: max(time.Second, 10*time.Duration(f.Processes*f.Callers)*(f.Section+ms)/time.Duration(f.Callers)), Stall: time.Second, Drain: 1100 * ms,
			}}
			if results[i] == nil {
				results[i] = arena.NewResult(cell, c)
			}
			load, before := loadAverage(), results[i].Sections
			if err := a.Measure(ctx, cell, c, results[i]); err != nil {
				return err
			}
			answered := time.Duration(0)
			if f.Callers > 1 { // it tells Redis of each hand-off, and the answer comes in the section
				answered = results[i].RoundTrip
			}
			if err := clock.measure(f.Section, answered, &slept[i]); err != nil {
				return err
			}
			f.Load = strings.TrimSpace(f.Load + " " + load)
			f.Rates = append(f.Rates, float64(results[i].Sections-before)/cell.Job.Duration.Seconds())
			trips[i] = append(trips[i], results[i].RoundTrip)
			progress(fmt.Sprintf("%s %d x %d, %s sections, %s: %.0f a second, load %s, round trip %s", f.Contender, f.Processes, f.Callers, f.Section, f.Network, f.Rates[len(f.Rates)-1], load, results[i].RoundTrip))
		}
	}
	for i, r := range results {
		f := &all[i]
		f.RoundTrip, f.Slept = median(trips[i]), median(slept[i])
		f.P50, f.P99, f.Handover = r.Wait.P50, r.Wait.P99, r.Handover.P50
		f.Commands, f.RedisCPU = r.Each(float64(r.Sent)), time.Duration(r.Each(float64(r.RedisCPU)))
	}
	data, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "real.json"), append(data, '\n'), 0o644)
}

// A sleeper measures the time of time.Sleep, as in a section of 1 or 5 ms. Go waits for timers and for the network
// in one system call, whose time is in whole milliseconds: an answer that comes in a sleep of 1 ms has the rest of that begin
// another millisecond. So the server of a sleeper answers as late as that of the fleet.
type sleeper struct {
	redis rueidis.Client
	stop  func()
}

func startSleeper() (*sleeper, error) {
	addr, stop, err := standin.Redis()
	if err != nil {
		return nil, err
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, AlwaysPipelining: true})
	if err != nil {
		stop()
		return nil, err
	}
	return &sleeper{redis, func() { redis.Close(); stop() }}, nil
}

// spin is a script that takes so many microseconds.
const spin = `local t = redis.call('time'); local ends = t[1] * 1000000 + t[2] + ARGV[1]
repeat t = redis.call('time') until t[1] * 1000000 + t[2] >= ends`

// measure adds the mean of some sections. In each an answer comes so late after its begin, unless that is 0.
func (s *sleeper) measure(section, answered time.Duration, to *[]time.Duration) error {
	const times = 60
	var sum time.Duration
	for range times {
		if section == 0 {
			break
		}
		got := make(chan error, 1)
		if answered > 0 {
			go func() {
				got <- s.redis.Do(context.Background(), s.redis.B().Eval().Script(spin).Numkeys(0).Arg(strconv.FormatInt(answered.Microseconds(), 10)).Build()).NonRedisError()
			}()
		} else {
			got <- nil
		}
		began := time.Now()
		time.Sleep(section)
		sum += time.Since(began)
		if err := <-got; err != nil {
			return err
		}
	}
	*to = append(*to, sum/times)
	return nil
}

// loadAverage returns the machine's load over the last minute, "?" where that is not known.
func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg")
	load, _, ok := strings.Cut(string(data), " ")
	if !ok {
		return "?"
	}
	return load
}

// simulated returns the same fleet in the simulation, with what calibration says of this machine.
func (f *realFleet) simulated(costs cost.Table, seed uint64) *sim.Result {
	fleet := sim.Fleet{
		Clients: f.Processes, Callers: f.Callers, Section: f.Slept, Overhead: costs.Pass, Costs: costs, Seed: seed,
		Network: sim.Network{OneWay: (f.RoundTrip - costs.Command) / 2}, Warm: time.Second, For: 10 * time.Second,
	}
	if f.Contender == "redislock-5ms" {
		fleet.Polling = &sim.Polling{Least: costs.Sleep5ms, Most: costs.Sleep5ms + 200*us, Lease: 30 * time.Second}
	}
	return fleet.Run()
}

// writeBeside writes beside.md, in which real fleets and simulated ones stand side by side, if there is a real.json.
func writeBeside(folder string, costs cost.Table, seed uint64) error {
	data, err := os.ReadFile(filepath.Join(folder, "real.json"))
	if os.IsNotExist(err) {
		return nil
	}
	var all []realFleet
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return fmt.Errorf("fleet: real.json: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, "beside.md"), []byte(sideBySide(all, costs, seed)), 0o644)
}

func sideBySide(all []realFleet, costs cost.Table, seed uint64) string {
	var b strings.Builder
	within, waits, ours := 0, 0, 0
	for i := range all {
		f := &all[i]
		r := f.simulated(costs, seed)
		off, offWait := r.Rate()/f.rate()-1, r.Quantile(50).Seconds()/f.P50.Seconds()-1
		if f.Contender == "rlock" {
			ours++
			within += yes(math.Abs(off) <= 0.2)
			waits += yes(math.Abs(offWait) <= 0.2)
		}
		fmt.Fprintf(&b, "| %s %d x %d, %s, %s | %s | %s | %s (%s to %s) | %s | %+.0f %% | %s, %s | %+.0f %% | %s, %s | %s | %.2f, %.2f |\n", f.Contender, f.Processes, f.Callers, sectionOf(f.Section), f.Network,
			micros(f.RoundTrip), took(f.Slept), short(f.rate()), short(slices.Min(f.Rates)), short(slices.Max(f.Rates)), short(r.Rate()), 100*off, took(f.P50), took(r.Quantile(50)), 100*offWait,
			took(f.P99), took(r.Quantile(99)), took(f.Handover), f.Commands, r.Each())
	}
	return fmt.Sprintf("# Fleets, real and simulated\n\nReal processes of this machine, by `nice -n -10 go run ./fleet -real`, and the same fleets in the simulation. What that knows of the machine are the costs, what a hand-off inside a process takes "+
		"(%s), and of the time of each round the round trip of a client that has slept (the median) and what `time.Sleep` takes for the section (the mean). Other programs kept the machine busy: its load was %s. "+
		"Of %d rlock fleets the simulation is within 20 %% of %d rates, and of %d medians of the wait.\n\n"+
		"| processes x callers | round trip | section takes | real rate: median of the rounds, least, most | simulated | off by | wait p50: real, simulated | off by | p99: real, simulated | hand-over p50 | commands a section: real, simulated |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n%s",
		micros(costs.Pass), loads(all), ours, within, waits, b.String())
}

func sectionOf(d time.Duration) string {
	if d == 0 {
		return "empty sections"
	}
	return fmt.Sprintf("%s sections", d)
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}

// loads returns the least and the greatest load in which fleets were measured.
func loads(all []realFleet) string {
	least, most := math.Inf(1), 0.0
	for i := range all {
		for load := range strings.FieldsSeq(all[i].Load) {
			var x float64
			if _, err := fmt.Sscan(load, &x); err == nil {
				least, most = min(least, x), max(most, x)
			}
		}
	}
	return fmt.Sprintf("%.1f to %.1f", least, most)
}
