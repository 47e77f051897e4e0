package report

import (
	"errors"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
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
