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
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

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

// groups draws a group of bars for each number of processes, from zero and in one
// order: that of the sums over all groups, the largest on top.
func (r *Report) groups(title, what, network string, value func(*arena.Result) float64) *plot.Plot {
	var labels []string
	var groups []map[string]float64 // by contender
	sums := make(map[string]float64)
	most := 0.0
	for _, n := range slices.Backward(scenario.FleetSizes()) { // the axis goes up, and few processes are on top
		group := make(map[string]float64)
		for _, res := range r.of(fleet, scenario.FleetSetting(n, time.Millisecond), network) {
			if v := value(res); res.Rounds > 0 && !math.IsNaN(v) && !math.IsInf(v, 0) {
				group[res.Contender] = v
				sums[res.Contender] += v
				most = max(most, v)
			}
		}
		if len(group) > 0 {
			labels = append(labels, fmt.Sprintf("%d x 1", n))
			groups = append(groups, group)
		}
	}
	who := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})

	const width = 12 // points of a bar
	p := start(title)
	for i, name := range who {
		values := make(plotter.Values, len(groups))
		for j, group := range groups {
			values[j] = group[name]
		}
		numbers := texts(values)
		for j, group := range groups {
			if _, ok := group[name]; !ok {
				numbers[j] = "not measured"
			}
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return nil
		}
		bars.Horizontal, bars.LineStyle.Width, bars.Color = true, 0, fleetColours[name]
		bars.Offset = vg.Points(width) * vg.Length(float64(len(who)-1)/2-float64(i))
		p.Add(bars)
		p.Legend.Add(name, bars)
		if tags, err := plotter.NewLabels(plotter.XYLabels{XYs: tips(values), Labels: numbers}); err == nil {
			tags.Offset = vg.Point{X: vg.Points(3), Y: bars.Offset - vg.Points(4)}
			p.Add(tags)
		}
	}
	p.NominalY(labels...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(labels))-0.5
	p.X.Label.Text = what
	p.X.Min, p.X.Max = 0, most*1.4 // room for the numbers and the legend
	p.Legend.Top, p.Legend.XOffs = true, -vg.Points(8)
	return p
}

// fleetColours are the same in all plots.
var fleetColours = map[string]color.RGBA{
	ours: palette[0], "rlock-fair": palette[5], "redislock-5ms": palette[4], "rueidislock-1": palette[7],
}
