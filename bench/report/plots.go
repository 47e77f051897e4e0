package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/go-rlock/rlock/bench/arena"
)

// plot draws the results and returns the names of the files.
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
	for _, p := range pictures {
		draw(p.file, r.bars(p))
	}
	names, plots := r.fleetPlots()
	for i, name := range names {
		draw(name, plots[i])
	}
	return files, err
}

var fontSize = regexp.MustCompile(`font-size:([0-9.]+)px`)

// save writes a plot as SVG, with a font for readers without the one by which the letters
// were measured. Such fonts may be an eighth wider, so all letters are drawn smaller by as
// much.
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

// A picture is of one figure of all contenders in one cell.
type picture struct {
	file                       string
	scenario, setting, network string
	what                       string // the figure, and the setting
	unit                       string
	value                      func(*arena.Result) float64
	less                       bool // a smaller figure is better
}

var pictures = []picture{
	{file: "uncontended.svg", scenario: "uncontended", setting: "1 goroutine", network: "loopback",
		what: "Lock and unlock, no contention, loopback: p50", unit: "µs", less: true,
		value: func(res *arena.Result) float64 { return res.Pair.P50.Seconds() * 1e6 }},
	{file: "four-processes.svg", scenario: "four-processes", setting: "4 x 32, 50µs sections", network: "0.5ms",
		what: "4 processes with 32 goroutines each, 50 µs sections, round trip 0.5 ms", unit: "sections a second",
		value: (*arena.Result).Rate},
	{file: "four-processes-wait.svg", scenario: "four-processes", setting: "4 x 32, 50µs sections", network: "0.5ms",
		what: "4 processes with 32 goroutines each, 50 µs sections, round trip 0.5 ms: p99 wait", unit: "ms", less: true,
		value: func(res *arena.Result) float64 { return res.Wait.P99.Seconds() * 1e3 }},
	{file: "handover.svg", scenario: "handover", setting: "2 processes in turn", network: "0.5ms",
		what: "Hand-over between two processes, round trip 0.5 ms: p50", unit: "ms", less: true,
		value: func(res *arena.Result) float64 { return res.Handover.P50.Seconds() * 1e3 }},
}

// group orders the contenders: rlock, then peers, then floors, which are no locks.
func group(name string) int {
	switch {
	case strings.HasPrefix(name, ours):
		return 0
	case strings.HasPrefix(name, "floor"):
		return 2
	}
	return 1
}

// bars draws one bar for each contender, in groups, the best of each on top; nil if there is nothing to draw. The title
// describes the figures.
func (r *Report) bars(pic picture) *plot.Plot {
	var all []Bar
	for _, res := range r.of(pic.scenario, pic.setting, pic.network) {
		if v := pic.value(res); res.Rounds > 0 && v > 0 && !math.IsInf(v, 0) {
			all = append(all, Bar{res.Contender, v, [...]color.RGBA{palette[0], palette[7], palette[4]}[group(res.Contender)]})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b Bar) int {
		order := cmp.Compare(b.Value, a.Value)
		if pic.less {
			order = -order
		}
		return cmp.Or(cmp.Compare(group(a.Name), group(b.Name)), order)
	})
	title := pic.what
	first := slices.IndexFunc(all, func(b Bar) bool { return b.Name == ours })
	peer := slices.IndexFunc(all, func(b Bar) bool { return group(b.Name) == 1 })
	if first >= 0 && peer >= 0 {
		title = fmt.Sprintf("rlock: %s %s; the best peer, %s: %s\n%s", short(all[first].Value), pic.unit, all[peer].Name, short(all[peer].Value), pic.what)
	}
	return draw(title, pic.unit, single(all))
}

// short writes three digits, or all of a large number.
func short(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return number(v)
}
