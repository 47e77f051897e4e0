package report

import (
	"errors"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var errEmpty = errors.New("report: there is nothing to draw")

// A Bar is one figure. Without a colour it has the first of the palette.
type Bar struct {
	Name   string
	Value  float64
	Colour color.RGBA
}

// Bars draws horizontal bars from zero, the first on top, and writes them as SVG to path.
func Bars(path, title, unit string, bars []Bar) error {
	bars = append([]Bar(nil), bars...)
	for i := range bars {
		if bars[i].Colour == (color.RGBA{}) {
			bars[i].Colour = palette[0]
		}
	}
	p := drawBars(title, unit, bars)
	if p == nil {
		return errEmpty
	}
	return save(p, path)
}

// Grey is the colour of a bar that others are compared with.
var Grey = palette[7]

// A Line is a figure as a function of another.
type Line struct {
	Name   string
	Points [][2]float64 // both positive
}

// Lines draws lines over axes that are both logarithmic, and writes them as SVG to path.
func Lines(path, title, axis string, lines []Line) error {
	var names []string
	series := make(map[string]plotter.XYs)
	for _, l := range lines {
		names = append(names, l.Name)
		for _, at := range l.Points {
			series[l.Name] = append(series[l.Name], plotter.XY{X: at[0], Y: at[1]})
		}
	}
	if len(names) == 0 {
		return errEmpty
	}
	p := drawLines(title, axis, names, series)
	if p == nil {
		return errEmpty
	}
	p.Legend.Left = true // rising lines leave room there
	p.X.Max *= 1.2 / legendRoom
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-8)
	return save(p, path)
}

// legendRoom is how much further than the lines the axis goes, for a legend at its end.
const legendRoom = 5

func drawBars(title, unit string, all []Bar) *plot.Plot {
	p := start(title)
	names, values, most := make([]string, len(all)), make(plotter.Values, len(all)), 0.0
	for i, b := range all {
		at := len(all) - 1 - i                        // the axis goes up
		names[at], values[at] = "   "+b.Name, b.Value // wider fonts need room
		most = max(most, b.Value)
		drawn, err := plotter.NewBarChart(plotter.Values{b.Value}, vg.Points(14))
		if err != nil {
			return nil
		}
		drawn.Horizontal, drawn.XMin, drawn.LineStyle.Width = true, float64(at), 0
		drawn.Color = b.Colour
		p.Add(drawn)
	}
	p.NominalY(names...)
	p.Y.Padding = vg.Points(6)
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: tips(values), Labels: texts(values)})
	if err == nil {
		labels.Offset = vg.Point{X: vg.Points(3), Y: vg.Points(-3)}
		p.Add(labels)
	}
	p.X.Label.Text = unit
	p.X.Min, p.X.Max = 0, most*1.15 // room for the labels
	return p
}

func drawLines(title, axis string, names []string, series map[string]plotter.XYs) *plot.Plot {
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
	p.X.Max *= legendRoom
	// A single point, or equal ones, would leave the logarithm without an extent.
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	if p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = p.Y.Min/2, p.Y.Max*2
	}
	return p
}
