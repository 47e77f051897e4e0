package main

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The measures of a character, in pixels.
const (
	across, down = 8.4, 18.0
	border       = 14.0
)

// The colours of the picture.
const (
	paper = "#1e1e2e"
	ink   = "#cdd6f4"
)

// colours are those of SGR.
var colours = map[string]string{"31": "#f38ba8", "33": "#f9e2af", "36": "#94e2d5"}

// A style is the effect of the SGR sequences before a text.
type style struct {
	colour               string
	bold, faint, reverse bool
}

func (s style) after(sequence string) style {
	for _, code := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(sequence, "\x1b["), "m"), ";") {
		switch code {
		case "", "0":
			s = style{}
		case "1":
			s.bold = true
		case "2":
			s.faint = true
		case "7":
			s.reverse = true
		default:
			s.colour = colours[code]
		}
	}
	return s
}

// writeSVG writes lines, with the SGR sequences of the screen, as a picture of a terminal.
func writeSVG(out io.Writer, lines []string, columns int) error {
	var b strings.Builder
	width, height := float64(columns)*across+2*border, float64(len(lines))*down+2*border
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", paper)
	fmt.Fprintf(&b, `<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`+"\n")
	for row, line := range lines {
		column, now := 0, style{}
		var state byte
		var text strings.Builder
		flush := func() {
			if text.Len() > 0 {
				now.write(&b, text.String(), column, row)
				column += ansi.StringWidth(text.String())
				text.Reset()
			}
		}
		for line != "" {
			sequence, width, n, next := ansi.DecodeSequence(line, state, nil)
			line, state = line[n:], next
			if width > 0 {
				text.WriteString(sequence)
				continue
			}
			flush()
			now = now.after(sequence)
		}
		flush()
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// write writes a text that begins at a column of a row.
func (s style) write(b *strings.Builder, text string, column, row int) {
	colour := ink
	if s.colour != "" {
		colour = s.colour
	}
	x, y, wide := border+float64(column)*across, border+float64(row)*down, float64(ansi.StringWidth(text))*across
	if s.reverse {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, x, y, wide, down, colour)
		colour = paper
	}
	attributes := ""
	if s.bold {
		attributes += ` font-weight="bold"`
	}
	if s.faint {
		attributes += ` fill-opacity="0.6"`
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" textLength="%.1f" fill="%s"%s>%s</text>`+"\n", x, y+down*0.75, wide, colour, attributes, html.EscapeString(text))
}
