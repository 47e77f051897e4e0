package top

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/go-rlock/rlock/rlock/inspect"
)

// step is the number of columns by which the view of a lock is moved to the side.
const step = 8

// press handles a key.
func (m *Model) press(key tea.KeyPressMsg) tea.Cmd {
	switch name := key.String(); {
	case name == "ctrl+c":
		m.abandon()
		return tea.Quit
	case m.typing:
		return m.edit(name, key.Text)
	case m.help:
		m.help = false
		m.scroll = 0
	case name == "q":
		m.abandon()
		return tea.Quit
	case name == "?":
		m.help, m.scroll = true, 0
	case name == "space", name == "p":
		return m.pause()
	case m.detail != "":
		m.browse(name)
	default:
		return m.list(name)
	}
	return nil
}

// list handles a key of the list of locks.
func (m *Model) list(name string) tea.Cmd {
	page := max(m.listed()-1, 1)
	switch name {
	case "w":
		m.sort(ByWaiters)
	case "n":
		m.sort(ByName)
	case "r":
		m.sort(ByRate)
	case "s":
		m.sort(BySeen)
	case "up", "k":
		m.move(m.cursor - 1)
	case "down", "j":
		m.move(m.cursor + 1)
	case "pgup":
		m.move(m.cursor - page)
	case "pgdown":
		m.move(m.cursor + page)
	case "home", "g":
		m.move(0)
	case "end", "G":
		m.move(len(m.rows) - 1)
	case "/":
		m.typing, m.typed = true, m.Pattern
	case "enter":
		if len(m.rows) > 0 {
			m.detail, m.lock, m.lockErr, m.scroll = m.selected, (*inspect.Lock)(nil), nil, 0
			return m.inspect()
		}
	}
	return nil
}

func (m *Model) sort(by Order) {
	m.Order = by
	m.selected, m.cursor = "", 0 // the cursor goes to the first row
	m.arrange()
}

// browse handles a key while a lock is looked into.
func (m *Model) browse(name string) {
	page := max(m.height-4, 1)
	switch name {
	case "esc", "backspace":
		m.detail, m.scroll, m.shift = "", 0, 0
	case "left", "h":
		m.shift = max(m.shift-step, 0)
	case "right", "l":
		m.shift += step // bounded by aside
	case "up", "k":
		m.scroll = max(m.scroll-1, 0)
	case "down", "j":
		m.scroll++ // bounded by part
	case "pgup":
		m.scroll = max(m.scroll-page, 0)
	case "pgdown":
		m.scroll += page
	}
}

// edit handles a key while the pattern is typed.
func (m *Model) edit(name, text string) tea.Cmd {
	switch name {
	case "enter":
		m.typing = false
		if pattern := Pattern(m.typed); pattern != m.Pattern {
			m.Pattern, m.look, m.rows = pattern, Look{}, nil // the old rows may not match
		}
		m.selected, m.cursor = "", 0
		return m.begin()
	case "esc":
		m.typing = false
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.typed)
		m.typed = m.typed[:len(m.typed)-size]
	case "ctrl+u":
		m.typed = ""
	default:
		m.typed += text
	}
	return nil
}

// pause stops the looks, or goes on with them.
func (m *Model) pause() tea.Cmd {
	if m.paused = !m.paused; !m.paused {
		return m.begin()
	}
	return nil
}

// Pattern returns the pattern of the typed text: a text without *, ? and [ is a part of the name.
func Pattern(typed string) string {
	if typed == "" || strings.ContainsAny(typed, `*?[\`) {
		return typed
	}
	return "*" + typed + "*"
}
