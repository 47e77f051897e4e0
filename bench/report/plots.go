package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/scenario"
)

// A picture is of one figure of all contenders in the settings of a scenario.
type picture struct {
	file, scenario, network string
	settings                []string
	title, unit             string
	value                   func(*arena.Result) float64
}

func pictures() []picture {
	one, four, turns, fleet := []string{"1 goroutine"}, []string{"4 x 32, 50µs sections"}, []string{"2 processes in turn"}, []string{}
	for _, n := range scenario.FleetSizes() {
		fleet = append(fleet, scenario.FleetSetting(n, time.Millisecond))
	}
	return []picture{
		{"uncontended.svg", "uncontended", "loopback", one, "Lock and unlock, no contention, loopback: p50", "µs",
			func(r *arena.Result) float64 { return r.Pair.P50.Seconds() * 1e6 }},
		{"four-processes.svg", "four-processes", "0.5ms", four, "4 processes with 32 goroutines each, 50 µs sections, round trip 0.5 ms", "sections a second",
			(*arena.Result).Rate},
		{"four-processes-wait.svg", "four-processes", "0.5ms", four, "4 processes with 32 goroutines each, 50 µs sections, round trip 0.5 ms: p99 wait", "ms",
			func(r *arena.Result) float64 { return r.Wait.P99.Seconds() * 1e3 }},
		{"handover.svg", "handover", "0.5ms", turns, "Hand-over between two processes, round trip 0.5 ms: p50", "ms",
			func(r *arena.Result) float64 { return r.Handover.P50.Seconds() * 1e3 }},
		{"fleet.svg", "fleet", "0.5ms", fleet, "Processes with one goroutine each, 1 ms sections, round trip 0.5 ms", "sections a second",
			(*arena.Result).Rate},
		{"fleet-wait.svg", "fleet", "0.5ms", fleet, "The same: p99 wait in rounds", "number of processes x mean time of a section",
			(*arena.Result).Rounds99},
		{"fleet-commands.svg", "fleet", "0.5ms", fleet, "The same: commands a section", "commands",
			func(r *arena.Result) float64 { return r.Each(float64(r.Sent)) }},
	}
}

// has reports whether the result has the figure.
func (p picture) has(r *arena.Result) bool {
	v := p.value(r)
	return r.Rounds > 0 && v > 0 && !math.IsInf(v, 0)
}

// plot draws the results and returns the names of the files.
func (r *Report) plot(folder string) (files []string, err error) {
	for _, p := range pictures() {
		settings := slices.DeleteFunc(slices.Clone(p.settings), func(setting string) bool {
			return !slices.ContainsFunc(r.of(p.scenario, setting, p.network), p.has)
		})
		bars := make(map[string][]float64) // of each contender, by setting
		for i, setting := range settings {
			for _, res := range r.of(p.scenario, setting, p.network) {
				if !p.has(res) {
					continue
				}
				if bars[res.Contender] == nil {
					bars[res.Contender] = slices.Repeat([]float64{math.NaN()}, len(settings))
				}
				bars[res.Contender][i] = p.value(res)
			}
		}
		if len(bars) == 0 {
			continue
		}
		if err := Bars(filepath.Join(folder, p.file), p.title, p.unit, settings, bars); err != nil {
			return nil, fmt.Errorf("report: plot %s: %w", p.file, err)
		}
		files = append(files, p.file)
	}
	return files, nil
}

// palette is Okabe and Ito's, which colour-blind people can tell apart.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xe6, 0x9f, 0x00, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

var fontSize = regexp.MustCompile(`font-size:([0-9.]+)px`)

// Bars draws horizontal bars from zero, and writes them as SVG to path. The map has the figures by
// name, one for each label; NaN was not measured. With one label, each name has a row, the largest
// figure on top, and ours is of another colour. With several, each label has a row of bars, and the
// names are in a legend.
func Bars(path, title, unit string, labels []string, figures map[string][]float64) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.BackgroundColor = title, unit, color.White
	p.Title.Padding = vg.Points(8)
	names := slices.SortedFunc(maps.Keys(figures), func(a, b string) int {
		return cmp.Or(cmp.Compare(figures[b][0], figures[a][0]), cmp.Compare(a, b))
	})
	single, most := len(labels) == 1, 0.0
	if single {
		labels = names
	}
	for i, name := range names {
		for j, value := range figures[name] {
			row, offset, colour := j, vg.Points(12)*vg.Length(float64(len(names)-1)/2-float64(i)), palette[i%len(palette)]
			if single {
				row, offset, colour = i, 0, palette[7]
				if strings.HasPrefix(name, ours) {
					colour = palette[0]
				}
			}
			text := short(value)
			if math.IsNaN(value) {
				value, text = 0, "not measured"
			}
			most = max(most, value)
			bar, err := plotter.NewBarChart(plotter.Values{value}, vg.Points(12))
			if err != nil {
				return err
			}
			bar.Horizontal, bar.XMin, bar.Offset, bar.Color = true, float64(len(labels)-1-row), offset, colour // the axis goes up
			bar.LineStyle.Width = 0
			tag, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: value, Y: bar.XMin}}, Labels: []string{text}})
			if err != nil {
				return err
			}
			tag.Offset = vg.Point{X: vg.Points(3), Y: offset - vg.Points(3)}
			p.Add(bar, tag)
			if !single && j == 0 {
				p.Legend.Add(name, bar)
			}
		}
	}
	rows := slices.Clone(labels)
	slices.Reverse(rows)
	p.NominalY(rows...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, most*1.4, -0.5, float64(len(rows))-0.5 // room for the numbers, and the legend
	p.Legend.Top, p.Legend.XOffs = true, -vg.Points(8)
	drawing, err := p.WriterTo(8*vg.Inch, 4.5*vg.Inch, "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := drawing.WriteTo(&svg); err != nil {
		return err
	}
	// Readers may have another font than the one by which the letters were measured, and a wider
	// one.
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	text = fontSize.ReplaceAllFunc(text, func(found []byte) []byte {
		size, _ := strconv.ParseFloat(string(fontSize.FindSubmatch(found)[1]), 64)
		return fmt.Appendf(nil, "font-size:%.4gpx", size*7/8)
	})
	return os.WriteFile(path, text, 0o644)
}

// short writes three digits, or all of a large number.
func short(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return number(v)
}
