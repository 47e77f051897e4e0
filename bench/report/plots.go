package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/go-rlock/rlock/bench/arena"
)

// plot draws what was measured and returns the names of the files.
func (r *Report) plot(folder string) (files []string, err error) {
	draw := func(name string, p *plot.Plot) {
		if p == nil || err != nil {
			return
		}
		if err = save(p, filepath.Join(folder, name)); err != nil {
			err = fmt.Errorf("report: plot %s: %w", name, err)
			return
		}
		files = append(files, name)
	}
	draw("uncontended.svg", r.bars("Lock and unlock, nobody else wants it: p50 in µs", "uncontended", "1 goroutine", "loopback",
		func(res *arena.Result) float64 { return res.Pair.P50.Seconds() * 1e6 }))
	draw("four-processes.svg", r.bars("4 processes x 32 goroutines, 50 µs sections, 0.5 ms away: sections a second", "four-processes", "4 x 32, 50µs sections", "0.5ms",
		(*arena.Result).Rate))
	draw("four-processes-wait.svg", r.bars("4 processes x 32 goroutines, 50 µs sections, 0.5 ms away: p99 wait in ms", "four-processes", "4 x 32, 50µs sections", "0.5ms",
		func(res *arena.Result) float64 { return res.Wait.P99.Seconds() * 1e3 }))
	draw("handover.svg", r.bars("Hand-over between processes, 0.5 ms away: p50 in ms", "handover", "2 processes in turn", "0.5ms",
		func(res *arena.Result) float64 { return res.Handover.P50.Seconds() * 1e3 }))
	draw("web.svg", r.bars("1 000 requests, 100 at a time: requests a second", "web", "1 server", "loopback", (*arena.Result).Rate))
	draw("one-process.svg", r.lines("One process, empty sections: sections a second", "goroutines", "one-process", func(setting string) (float64, bool) {
		n, ok := strings.CutSuffix(setting, " goroutines, empty sections")
		return parse(n), ok
	}))
	for _, what := range []string{"clients", "locks", "waiters"} {
		draw("growth-"+what+".svg", r.lines("How the rate changes with "+what+": sections a second", what, "growth", func(setting string) (float64, bool) {
			n, ok := strings.CutPrefix(setting, what+": ")
			return parse(n), ok
		}))
	}
	names, plots := r.fleetPlots()
	for i, name := range names {
		draw(name, plots[i])
	}
	return files, err
}

var fontSize = regexp.MustCompile(`font-size:([0-9.]+)px`)

// save writes a plot as SVG, with a font for those who lack the one that the
// letters were measured with. Those fonts may be an eighth wider, so that all
// letters are drawn smaller by as much.
func save(p *plot.Plot, path string) error {
	var svg bytes.Buffer
	drawing, err := p.WriterTo(8*vg.Inch, 4.5*vg.Inch, "svg")
	if err != nil {
		return err
	}
	if _, err := drawing.WriteTo(&svg); err != nil {
		return err
	}
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	text = fontSize.ReplaceAllFunc(text, func(found []byte) []byte {
		size, _ := strconv.ParseFloat(string(fontSize.FindSubmatch(found)[1]), 64)
		return fmt.Appendf(nil, "font-size:%.4gpx", size*7/8)
	})
	return os.WriteFile(path, text, 0o644)
}

// parse reads what count wrote.
func parse(n string) float64 {
	x, _ := strconv.ParseFloat(strings.ReplaceAll(n, " ", ""), 64)
	return x
}

// palette is Okabe and Ito's, which colour-blind people can tell apart.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

func start(title string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(8)
	p.BackgroundColor = color.White
	return p
}

// bars draws one bar for each contender, on a logarithmic axis since peers are
// often orders of magnitude apart; nil if there is nothing to draw.
func (r *Report) bars(title, scenario, setting, network string, value func(*arena.Result) float64) *plot.Plot {
	var names []string
	var values plotter.Values
	for _, res := range r.of(scenario, setting, network) {
		if v := value(res); res.Rounds > 0 && v > 0 && !math.IsInf(v, 0) {
			names = append([]string{res.Contender}, names...) // from the top down
			values = append(plotter.Values{v}, values...)
		}
	}
	if len(values) == 0 {
		return nil
	}
	p := start(title)
	least := values[0]
	for i, v := range values {
		least = min(least, v)
		bar, err := plotter.NewBarChart(plotter.Values{v}, vg.Points(14))
		if err != nil {
			return nil
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, float64(i), 0
		bar.Color = palette[7]
		if names[i] == ours {
			bar.Color = palette[0]
		}
		p.Add(bar)
	}
	p.NominalY(names...)
	p.Y.Padding = vg.Points(6)
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: tips(values), Labels: texts(values)})
	if err == nil {
		labels.Offset = vg.Point{X: vg.Points(3), Y: vg.Points(-3)}
		p.Add(labels)
	}
	p.X.Scale, p.X.Tick.Marker = logarithm{}, plot.LogTicks{Prec: -1}
	p.X.Min = math.Pow(10, math.Floor(math.Log10(least)-0.3))
	p.X.Max *= 3 // room for the labels
	return p
}

// logarithm is a LogScale on which what is not positive, such as the foot of a
// bar, stands at the left edge.
type logarithm struct{}

func (logarithm) Normalize(least, most, x float64) float64 {
	if x <= least {
		return 0
	}
	return plot.LogScale{}.Normalize(least, most, x)
}

func tips(values plotter.Values) plotter.XYs {
	xys := make(plotter.XYs, len(values))
	for i, v := range values {
		xys[i] = plotter.XY{X: v, Y: float64(i)}
	}
	return xys
}

func texts(values plotter.Values) []string {
	all := make([]string, len(values))
	for i, v := range values {
		if all[i] = number(v); v < 100 {
			all[i] = strconv.FormatFloat(v, 'g', 3, 64)
		}
	}
	return all
}

// lines draws the rate of each contender over a number that is in the setting;
// nil if there is nothing to draw. Only loopback, both axes logarithmic.
func (r *Report) lines(title, axis, scenario string, at func(setting string) (float64, bool)) *plot.Plot {
	var names []string
	series := make(map[string]plotter.XYs)
	for _, res := range r.Results {
		x, ok := at(res.Setting)
		if res.Scenario != scenario || res.Network != "loopback" || !ok || x <= 0 || res.Sections == 0 {
			continue
		}
		if series[res.Contender] == nil {
			names = append(names, res.Contender)
		}
		series[res.Contender] = append(series[res.Contender], plotter.XY{X: x, Y: res.Rate()})
	}
	if len(names) == 0 {
		return nil
	}
	p := start(title)
	p.X.Label.Text = axis
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	for i, name := range names {
		line, points, err := plotter.NewLinePoints(series[name])
		if err != nil {
			return nil
		}
		line.Color = palette[i%len(palette)]
		line.Width = vg.Points(1.5)
		if i >= len(palette) {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		points.Color, points.Shape = line.Color, draw.CircleGlyph{}
		p.Add(line, points)
		p.Legend.Add(name, line, points)
	}
	p.Legend.Top = true
	p.X.Max *= 5 // room for the legend
	// A single point, or equal ones, would leave the logarithm without an extent.
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	if p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = p.Y.Min/2, p.Y.Max*2
	}
	return p
}
