package top

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/go-rlock/rlock/rlock/inspect"
)

// patience is the longest time that a look may take, if the interval is shorter.
const patience = 10 * time.Second

// Patience returns how long a look may take.
func Patience(interval time.Duration) time.Duration { return max(patience, interval) }

// Options are the options of a Model.
type Options struct {
	Server   string // the server's name on the screen
	Pattern  string
	Interval time.Duration
	Order    Order
	Count    int // the number of looks; 0 for no end
}

// A Model is the screen and its state, for Bubble Tea. It has one look under way at a time.
type Model struct {
	Options
	watcher *Watcher

	look    Look      // the last look with a result
	failing time.Time // the time since which looks fail; zero if the last one succeeded
	failed  error     // the error of the last look
	looks   int
	rows    []Row // the rows of the look, in the chosen order

	serial  int                // the number of the awaited look; messages with another number are void
	asked   time.Time          // the beginning of the look under way; zero if none is
	abandon context.CancelFunc // ends the look under way

	selected string // the name of the lock under the cursor
	cursor   int    // the index of that lock, or its last index
	paused   bool
	help     bool
	typing   bool   // the pattern is being edited
	typed    string // the text that was typed so far

	detail  string // the name of the lock in the detail view; "" for none
	lock    *inspect.Lock
	lockErr error
	scroll  int // the first line of the detail, or of the help, that is shown
	shift   int // the first column of the detail that is shown

	width, height int
	now           time.Time
}

// NewModel returns a Model that looks through the watcher.
func NewModel(watcher *Watcher, options Options) *Model {
	return &Model{Options: options, watcher: watcher, width: 80, height: 24, now: time.Now(), abandon: func() {}}
}

// Err returns the error of the last look, nil if it has succeeded.
func (m *Model) Err() error { return m.failed }

type (
	lookMsg struct { // a look has ended
		serial int
		look   Look
	}
	lockMsg struct { // the lock in the detail view
		name string
		lock inspect.Lock
		err  error
	}
	dueMsg   struct{ serial int } // the next look is due
	clockMsg time.Time            // a second has passed: times on the screen go on
)

// Init begins the first look.
func (m *Model) Init() tea.Cmd { return tea.Batch(m.begin(), clock()) }

func clock() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return clockMsg(t) }) }

// begin begins a look, and abandons one that is under way.
func (m *Model) begin() tea.Cmd {
	m.abandon()
	ctx, cancel := context.WithTimeout(context.Background(), Patience(m.Interval))
	m.serial++
	m.asked, m.abandon = time.Now(), cancel
	serial, pattern := m.serial, m.Pattern
	look := func() tea.Msg {
		defer cancel()
		return lookMsg{serial, m.watcher.Look(ctx, pattern)}
	}
	return tea.Batch(look, m.inspect())
}

// inspect inspects the lock in the detail view.
func (m *Model) inspect() tea.Cmd {
	name, wait := m.detail, Patience(m.Interval)
	if name == "" {
		return nil
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		lock, err := m.watcher.Inspect(ctx, name)
		return lockMsg{name, lock, err}
	}
}

// Update handles a message.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = time.Now()
	switch msg := msg.(type) {
	case lookMsg:
		if msg.serial == m.serial {
			return m, m.show(msg.look)
		}
	case dueMsg:
		if msg.serial == m.serial && !m.paused {
			return m, m.begin()
		}
	case lockMsg:
		if msg.name == m.detail {
			if m.lockErr = msg.err; msg.err == nil {
				m.lock = &msg.lock
			}
		}
	case clockMsg:
		return m, clock()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.PasteMsg:
		if m.typing {
			m.typed += msg.Content
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	return m, nil
}

// show shows a look, and returns the command that waits for the next.
func (m *Model) show(look Look) tea.Cmd {
	m.asked = time.Time{}
	m.failed = look.Err
	if look.Err == nil {
		m.failing = time.Time{}
	} else if m.failing.IsZero() {
		m.failing = look.At
	}
	if look.Err == nil || len(look.Rows) > 0 {
		m.look = look
		m.arrange()
	}
	if m.looks++; m.looks == m.Count {
		return tea.Quit
	}
	serial := m.serial
	return tea.Tick(m.Interval, func(time.Time) tea.Msg { return dueMsg{serial} })
}

// arrange sorts the rows, and keeps the cursor on its lock. If the lock is gone the cursor stays at
// its index.
func (m *Model) arrange() {
	m.rows = slices.Clone(m.look.Rows)
	m.Order.Sort(m.rows)
	at := slices.IndexFunc(m.rows, func(r Row) bool { return r.Name == m.selected })
	if at < 0 {
		at = m.cursor
	}
	m.move(at)
}

// move puts the cursor on a row.
func (m *Model) move(to int) {
	m.cursor = max(min(to, len(m.rows)-1), 0)
	if m.selected = ""; len(m.rows) > 0 {
		m.selected = m.rows[m.cursor].Name
	}
}
