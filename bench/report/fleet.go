package report

import (
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/scenario"
)

// The plots of the scenario fleet.

const fleet = "fleet"

// fleetPlots are the plots by file name. The title of each describes the figures.
func (r *Report) fleetPlots() (names []string, plots []*plot.Plot) {
	const network = "0.5ms"
	at := func(processes int, who string) *arena.Result {
		return r.find(fleet, scenario.FleetSetting(processes, time.Millisecond), network, who)
	}
	// Both are compared at the largest number of processes that both have.
	largest := 0
	var rlock, peer *arena.Result
	for _, n := range scenario.FleetSizes() {
		if res := at(n, ours); res != nil && r.best(res) != nil {
			largest, rlock, peer = n, res, r.best(res)
		}
	}
	if rlock == nil {
		return nil, nil
	}
	const where = "\nProcesses with one goroutine each, 1 ms sections, round trip 0.5 ms"
	add := func(name, title, what string, value func(*arena.Result) float64) {
		names = append(names, name)
		plots = append(plots, r.groups(title+where, what, network, value))
	}
	sent := func(res *arena.Result) float64 { return res.Each(float64(res.Sent)) }
	add("fleet.svg", fmt.Sprintf("rlock lets %d processes through %.2f times as fast as the best peer, %s", largest, rlock.Rate()/peer.Rate(), peer.Contender),
		"sections a second", (*arena.Result).Rate)
	add("fleet-wait.svg", fmt.Sprintf("Of %d processes, one wait in a hundred is longer than %.1f rounds with rlock, %.1f with %s", largest, rlock.Rounds99(), peer.Rounds99(), peer.Contender),
		"p99 wait in rounds (number of processes x mean time of a section)", (*arena.Result).Rounds99)
	add("fleet-commands.svg", fmt.Sprintf("A section of %d processes costs Redis %.1f commands with rlock, %.1f with %s", largest, sent(rlock), sent(peer), peer.Contender),
		"commands a section", sent)
	return names, plots
}

// groups draws a row of bars for each number of processes, in one order: that of the sums over all rows, the largest on top.
func (r *Report) groups(title, what, network string, value func(*arena.Result) float64) *plot.Plot {
	var labels []string
	var groups []map[string]float64 // by contender
	sums := make(map[string]float64)
	for _, n := range scenario.FleetSizes() {
		group := make(map[string]float64)
		for _, res := range r.of(fleet, scenario.FleetSetting(n, time.Millisecond), network) {
			if v := value(res); res.Rounds > 0 && !math.IsNaN(v) && !math.IsInf(v, 0) {
				group[res.Contender] = v
				sums[res.Contender] += v
			}
		}
		if len(group) > 0 {
			labels, groups = append(labels, fmt.Sprintf("%d x 1", n)), append(groups, group)
		}
	}
	who := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	rows := make([]row, len(groups))
	for i, group := range groups {
		rows[i].label = labels[i]
		for _, name := range who {
			v, ok := group[name]
			if !ok {
				v = math.NaN()
			}
			rows[i].bars = append(rows[i].bars, Bar{name, v, fleetColours[name]})
		}
	}
	return draw(title, what, rows)
}

// fleetColours are the same in all plots.
var fleetColours = map[string]color.RGBA{
	ours: palette[0], "rlock-fair": palette[5], "redislock-5ms": palette[4], "rueidislock-1": palette[7],
}
