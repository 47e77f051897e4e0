package panels

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A chart is where the lines of a panel are drawn.
type chart struct {
	*canvas
	left, top, right, bottom float64
	span                     Span
	most                     float64 // the value at the top
}

func (c *chart) x(at time.Time) float64 {
	return c.left + (c.right-c.left)*float64(at.Sub(c.span.From))/float64(c.span.To.Sub(c.span.From))
}

func (c *chart) y(value float64) float64 { return c.bottom - (c.bottom-c.top)*value/c.most }

// time draws the axis of the time, a line at each event, and the name of the event.
func (c *chart) time(events []Event) {
	const ticks = 6
	for i := range ticks + 1 {
		after := c.span.To.Sub(c.span.From) * time.Duration(i) / ticks
		c.text(c.x(c.span.From.Add(after)), c.bottom+13, faint, "middle", clock(after))
	}
	for i, e := range events {
		x := c.x(e.At)
		c.printf(`<path d="M%.1f,%.1fV%.1f" stroke="%s" stroke-dasharray="2,3"/>`, x, c.top, c.bottom, faint)
		c.text(x, c.top-3, faint, "middle", letter(i))
	}
}

// values draws the axis of the values, from zero to the greatest.
func (c *chart) values(unit string, most float64) {
	all := steps(most)
	c.most = all[len(all)-1]
	for _, value := range all {
		c.printf(`<path d="M%.1f,%.1fH%.1f" stroke="%s"/>`, c.left, c.y(value), c.right, grid)
		c.text(c.left-5, c.y(value)+3.5, faint, "end", format(value, unit))
	}
}

// lines draws each line from the axis of the time, or from the line before.
func (c *chart) lines(unit string, stacked bool, lines []Line) {
	below := make(map[time.Time]float64)
	drawn := make([][]Point, len(lines))
	most := 0.0
	for i, line := range lines {
		for _, p := range line.Points {
			if math.IsNaN(p.Value) {
				continue
			}
			p.Value += below[p.At]
			most = max(most, p.Value)
			if stacked {
				below[p.At] = p.Value
			}
			drawn[i] = append(drawn[i], p)
		}
	}
	c.values(unit, most)
	for i := len(lines) - 1; i >= 0; i-- { // the areas of the lower ones lie above
		for _, run := range c.runs(drawn[i]) {
			var path strings.Builder
			for _, p := range run {
				fmt.Fprintf(&path, "L%.1f,%.1f", c.x(p.At), c.y(p.Value))
			}
			d := "M" + path.String()[1:]
			if stacked {
				first, last := c.x(run[0].At), c.x(run[len(run)-1].At)
				c.printf(`<path d="%sL%.1f,%.1fH%.1fZ" fill="%s"/>`, d, last, c.bottom, first, paper)
				c.printf(`<path d="%sL%.1f,%.1fH%.1fZ" fill="%s" fill-opacity="0.3"/>`, d, last, c.bottom, first, colour(i))
			}
			c.printf(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linecap="round"/>`, d, colour(i))
		}
	}
}

// runs returns the points in parts that have no gap.
func (c *chart) runs(points []Point) (all [][]Point) {
	for i, p := range points {
		if i == 0 || p.At.Sub(points[i-1].At) > c.span.Step*3/2 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

// legend draws the names of the lines, as many as there is room for, between two columns.
func (c *canvas) legend(left, right, y float64, lines []Line) {
	for i, line := range lines {
		if name := line.Name; name == "" {
			line.Name = "all"
		}
		wide := 22 + widthOf(line.Name)
		if left+wide > right {
			c.text(left, y, faint, "start", fmt.Sprintf("+%d", len(lines)-i))
			return
		}
		c.printf(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, left+4, y-3.5, colour(i))
		c.text(left+11, y, ink, "start", line.Name)
		left += wide
	}
}
