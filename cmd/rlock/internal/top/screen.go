package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
)

// crowd is the number of waiters that makes a lock red.
const crowd = 10

var (
	bold     = lipgloss.NewStyle().Bold(true)
	faint    = lipgloss.NewStyle().Faint(true)
	head     = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("6"))
	selected = lipgloss.NewStyle().Reverse(true)
	some     = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	many     = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
)

const (
	keysOfList   = "↑↓ select  enter show  / filter  w n r s sort  space pause  ? help  q quit"
	keysOfDetail = "esc back  ↑↓←→ scroll  space pause  ? help  q quit"
	keysOfInput  = "enter filter  esc leave it  ctrl+u clear    orders is a part of the name, orders:* a pattern"
	keysOfHelp   = "any key: back"
)

const helpText = `SEEN     the time for which all inspections have shown the same holder: the lock is
         held for at least that time
LEASE    the time left unless the lock is renewed
WAITING  the number of clients that wait, those of Redisson after the +
NEW/S    new holders per second, over the last ten inspections. It is a lower bound: a
         lock that is taken and released between two inspections is not seen, nor is a
         hand-off inside a process.

Losses are not shown: in Redis the end of a lease looks like a release. The clients
count them: Config.Observer, package inspect.

↑ ↓ j k pgup pgdown g G   select a lock
enter                     show its holders and its queue, as rlock show
esc                       back
w n r s                   sort by waiting, name, new/s, seen
/                         filter by a part of the name, or a pattern of Redis' KEYS
space                     pause, and continue
q ctrl+c                  quit`

// View returns the screen.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen, v.WindowTitle = true, "rlock top"
	return v
}

// lines returns the screen as lines that fit in it.
func (m *Model) lines() []string {
	lines := m.status()
	if m.help {
		lines = lines[:1]
	}
	room := max(m.height-len(lines)-1, 0)
	keys := keysOfList
	switch {
	case m.help:
		lines, keys = append(lines, m.part(helpText, room)...), keysOfHelp
	case m.detail != "":
		lines, keys = append(lines, m.aside(m.part(m.inside(), room))...), keysOfDetail
	default:
		lines = append(lines, m.table(room)...)
	}
	if m.typing {
		keys = keysOfInput
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, faint.Render(keys))
	lines = lines[:min(len(lines), m.height)]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return lines
}

// status returns the lines above the table.
func (m *Model) status() []string {
	title := bold.Render("rlock top") + "  " + printable(m.Server)
	if m.Pattern != "" {
		title += "  " + printable(m.Pattern)
	}
	title += faint.Render("  every " + m.Interval.String())
	switch {
	case m.paused:
		title += "  " + some.Render("paused, as of "+m.look.At.Format(time.TimeOnly))
	case !m.look.At.IsZero():
		title += "  " + m.look.At.Format(time.TimeOnly)
	}
	lines := []string{title}
	switch silent := m.now.Sub(m.asked); {
	case m.failed != nil:
		lines = append(lines, many.Render(failure(m.failed, m.failing, m.now)))
	case !m.asked.IsZero() && silent >= max(m.Interval, time.Second):
		lines = append(lines, some.Render(fmt.Sprintf("no answer for %v", silent.Truncate(time.Second))))
	}
	if m.typing {
		return append(lines, "filter: "+printable(m.typed)+"█")
	}
	if m.look.At.IsZero() {
		return append(lines, "")
	}
	return append(lines, m.look.Summary(), "")
}

// listed returns the number of rows that fit.
func (m *Model) listed() int { return max(m.height-len(m.status())-2, 0) }

// table returns the head and the rows around the cursor.
func (m *Model) table(room int) []string {
	if m.look.At.IsZero() || room < 1 {
		return nil
	}
	names := append([]string{}, columns...)
	names[sortedBy[m.Order]] += "▾"
	cells := [][]string{names}
	first := max(m.cursor-max(room-2, 0), 0)
	for _, row := range m.rows[first:min(first+room-1, len(m.rows))] {
		cells = append(cells, row.cells())
	}
	widths := m.widths(cells)
	lines := make([]string, 0, len(cells))
	for i, line := range cells {
		var text strings.Builder
		for column, cell := range line {
			cell = ansi.Truncate(cell, widths[column], "…")
			text.WriteString(cell + strings.Repeat(" ", widths[column]-ansi.StringWidth(cell)+2))
		}
		lines = append(lines, m.paint(first+i-1, text.String()))
	}
	switch {
	case len(m.rows) > 0:
	case m.Pattern == "":
		lines = append(lines, "no lock is held")
	default:
		lines = append(lines, "no lock that is held matches the filter")
	}
	return lines
}

// widths returns the widths of the columns. If the screen is too narrow, the holder and the name
// are shortened.
func (m *Model) widths(cells [][]string) []int {
	widths, sum := make([]int, len(columns)), 0
	for column := range columns {
		for _, line := range cells {
			widths[column] = max(widths[column], ansi.StringWidth(line[column]))
		}
		sum += widths[column] + 2
	}
	const name, holder, least = 0, 2, 12
	for _, column := range []int{holder, name} {
		cut := max(min(sum-2-m.width, widths[column]-least), 0)
		widths[column], sum = widths[column]-cut, sum-cut
	}
	return widths
}

// paint colours the line of a row, -1 being the head.
func (m *Model) paint(row int, line string) string {
	switch {
	case row < 0:
		return head.Render(line)
	case row == m.cursor:
		return selected.Render(line)
	case m.failed != nil && m.look.Err == nil:
		return faint.Render(line) // the state before the failure
	case m.rows[row].Waiters() >= crowd:
		return many.Render(line)
	case m.rows[row].Waiters() > 0:
		return some.Render(line)
	}
	return line
}

// inside returns the detail view of the lock.
func (m *Model) inside() string {
	var text strings.Builder
	if m.lockErr != nil {
		text.WriteString(many.Render(printable(m.lockErr.Error())) + "\n\n")
	}
	if m.lock == nil {
		return text.String() + "inspecting " + view.Printable(m.detail)
	}
	_ = view.WriteLock(&text, *m.lock)
	return strings.TrimSuffix(text.String(), "\n")
}

// part returns the lines of a text that fit, from the scroll position on.
func (m *Model) part(text string, room int) []string {
	lines := strings.Split(text, "\n")
	m.scroll = max(min(m.scroll, len(lines)-room), 0)
	return lines[m.scroll:min(m.scroll+room, len(lines))]
}

// aside moves lines to the left, until the end of the widest is on the screen.
func (m *Model) aside(lines []string) []string {
	widest := 0
	for _, line := range lines {
		widest = max(widest, ansi.StringWidth(line))
	}
	m.shift = max(min(m.shift, widest-m.width), 0)
	for i, line := range lines {
		lines[i] = ansi.TruncateLeft(line, m.shift, "")
	}
	return lines
}
