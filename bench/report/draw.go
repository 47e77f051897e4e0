package report

import (
	"cmp"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// A Bar is one figure. Without a colour it has the first of the palette.
type Bar struct {
	Name   string
	Value  float64 // NaN: it was not measured
	Colour color.RGBA
}

// Grey is the colour of a bar that others are compared with.
var Grey = palette[7]

// Bars draws horizontal bars from zero, the first on top, and writes them as SVG to path.
func Bars(path, title, unit string, bars []Bar) error {
	return save(draw(title, unit, single(bars)), path)
}

// A row has the bars of a label, the first on top.
type row struct {
	label string
	bars  []Bar
}

// single returns a row for each bar, which has its name.
func single(bars []Bar) []row {
	rows := make([]row, len(bars))
	for i, b := range bars {
		rows[i] = row{"   " + b.Name, []Bar{b}} // wider fonts need room
	}
	return rows
}

// draw draws the rows, the first on top, with a legend if they have several bars.
func draw(title, unit string, rows []row) *plot.Plot {
	p := start(title)
	labels, most, several := make([]string, len(rows)), 0.0, false
	for i, r := range rows {
		at := len(rows) - 1 - i // the axis goes up
		labels[at] = r.label
		several = len(r.bars) > 1
		width := vg.Points(14)
		if several {
			width = vg.Points(12)
		}
		for j, b := range r.bars {
			value, text := b.Value, short(b.Value)
			if math.IsNaN(value) {
				value, text = 0, "not measured"
			}
			most = max(most, value)
			drawn, err := plotter.NewBarChart(plotter.Values{value}, width)
			if err != nil {
				panic(err) // it is one finite value
			}
			drawn.Horizontal, drawn.XMin, drawn.LineStyle.Width = true, float64(at), 0
			drawn.Offset = width * vg.Length(float64(len(r.bars)-1)/2-float64(j))
			drawn.Color = cmp.Or(b.Colour, palette[0])
			p.Add(drawn)
			if i == 0 && several {
				p.Legend.Add(b.Name, drawn)
			}
			tag, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: value, Y: float64(at)}}, Labels: []string{text}})
			if err != nil {
				panic(err)
			}
			tag.Offset = vg.Point{X: vg.Points(3), Y: drawn.Offset - vg.Points(3)}
			p.Add(tag)
		}
	}
	p.NominalY(labels...)
	p.X.Label.Text = unit
	p.X.Min, p.X.Max = 0, most*1.15 // room for the numbers
	p.Y.Padding = vg.Points(6)
	if several {
		p.Y.Min, p.Y.Max = -0.5, float64(len(rows))-0.5
		p.X.Max = most * 1.4 // and the legend
		p.Legend.Top, p.Legend.XOffs = true, -vg.Points(8)
	}
	return p
}
