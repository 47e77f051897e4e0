package panels

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"time"
	"unicode/utf8"
)

// A Picture is a dashboard with its answers, the states of the alerts, and the events of the
// time.
type Picture struct {
	Dashboard *Dashboard
	Span      Span
	Caption   string
	Events    []Event
	Alerts    []Alert
}

// An Event is something that the picture should show the effects of.
type Event struct {
	At   time.Time
	Text string
}

// The measures, in pixels. A panel's place is in columns and rows of Grafana.
const (
	wide      = 1200.0
	border    = 14.0
	across    = (wide - 2*border) / 24
	down      = 23.0
	gap       = 8.0 // between two panels
	line      = 17.0
	letters   = 11.0
	perLetter = 0.56 * letters // on average
)

// The picture has a background of its own, so that it reads on light and on dark pages.
const (
	page, paper, grid, ink, faint = "#11111b", "#1e1e2e", "#313244", "#cdd6f4", "#9399b2"
	pendingColour, firingColour   = "#f9e2af", "#f38ba8"
)

var (
	colours = []string{"#89b4fa", "#fab387", "#a6e3a1", "#f38ba8", "#cba6f7", "#f9e2af", "#94e2d5", "#eba0ac"}
	named   = map[string]string{"green": "#a6e3a1", "red": "#f38ba8"} // the colours of thresholds
)

func colour(i int) string { return colours[i%len(colours)] }

// letter is the name of the event in the charts.
func letter(i int) string { return string(rune('A' + i)) }

func widthOf(text string) float64 { return perLetter * float64(utf8.RuneCountInString(text)) }

// A canvas collects the elements of the picture.
type canvas struct{ bytes.Buffer }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(x, y float64, colour, anchor, text string) {
	c.printf(`<text x="%.1f" y="%.1f" fill="%s" text-anchor="%s">%s</text>`, x, y, colour, anchor, html.EscapeString(text))
}

// box draws the frame of a panel, with its title.
func (c *canvas) box(x, y, w, h float64, title string) {
	c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" fill="%s"/>`, x, y, w, h, paper)
	c.printf(`<text x="%.1f" y="%.1f" fill="%s" font-weight="bold">%s</text>`, x+10, y+17, ink, html.EscapeString(title))
}

// WriteSVG draws the picture.
func (p Picture) WriteSVG(out io.Writer) error {
	c := new(canvas)
	top := border + line + gap
	c.printf(`<text x="%.1f" y="%.1f" fill="%s" font-size="15" font-weight="bold">%s</text>`, border, border+12, ink, html.EscapeString(p.Dashboard.Title))
	c.text(wide-border, border+12, faint, "end", p.Caption)
	rows := 0
	for _, panel := range p.Dashboard.Panels {
		at := panel.GridPos
		p.panel(c, panel, border+float64(at.X)*across+gap/2, top+float64(at.Y)*down, float64(at.W)*across-gap, float64(at.H)*down-gap)
		rows = max(rows, at.Y+at.H)
	}
	top += float64(rows) * down
	if len(p.Alerts) > 0 {
		top += p.alerts(c, top) + gap
	}
	for i, e := range p.Events {
		top += line
		c.text(border+gap, top, faint, "start", fmt.Sprintf("%s  %s  %s", letter(i), clock(e.At.Sub(p.Span.From)), e.Text))
	}
	high := top + border
	_, err := fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif" font-size="%.0f">
<rect width="100%%" height="100%%" rx="8" fill="%s"/>
%s</svg>
`, wide, high, letters, page, c)
	return err
}

// panel draws a figure, or a chart.
func (p Picture) panel(c *canvas, panel *Panel, x, y, w, h float64) {
	c.box(x, y, w, h, panel.Title)
	shown := panel.FieldConfig.Defaults
	if panel.Type == "stat" {
		for _, l := range panel.Lines {
			c.printf(`<text x="%.1f" y="%.1f" fill="%s" font-size="30" text-anchor="middle">%s</text>`,
				x+w/2, y+h-18, panel.colour(l.last()), panel.figure(l.last()))
		}
		return
	}
	frame := chart{canvas: c, left: x + 52, top: y + 36, right: x + w - 18, bottom: y + h - 38, span: p.Span}
	frame.lines(shown.Unit, shown.Custom.Stacking.Mode == "normal", panel.Lines)
	frame.time(p.Events)
	c.legend(x+10, x+w-20, y+h-8, panel.Lines)
}

// alerts draws when each alert was pending and firing, and returns the height.
func (p Picture) alerts(c *canvas, y float64) (height float64) {
	height = 60 + line*float64(len(p.Alerts))
	c.box(border+gap/2, y, wide-2*border-gap, height, "Alerts")
	frame := chart{canvas: c, left: border + 190, top: y + 36, right: wide - border - 40, bottom: y + height - 20, span: p.Span}
	for i, alert := range p.Alerts {
		middle := frame.top + line*(float64(i)+0.6)
		c.text(frame.left-10, middle+4, ink, "end", alert.Name)
		c.printf(`<path d="M%.1f,%.1fH%.1f" stroke="%s"/>`, frame.left, middle, frame.right, grid)
		for _, state := range []struct {
			times  []time.Time
			colour string
		}{{alert.Pending, pendingColour}, {alert.Firing, firingColour}} {
			points := make([]Point, len(state.times))
			for i, at := range state.times {
				points[i].At = at
			}
			for _, run := range frame.runs(points) {
				from, to := frame.x(run[0].At), frame.x(run[len(run)-1].At.Add(p.Span.Step))
				c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="10" fill="%s"/>`, from, middle-5, min(to, frame.right)-from, state.colour)
			}
		}
	}
	frame.time(p.Events)
	legend := wide - border - 190
	for i, state := range []struct{ name, colour string }{{"pending", pendingColour}, {"firing", firingColour}} {
		x := legend + 80*float64(i)
		c.printf(`<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/>`, x, y+8, state.colour)
		c.text(x+15, y+17, ink, "start", state.name)
	}
	return height
}
