package top_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/top"
	"github.com/go-rlock/rlock/internal/golden"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// A desk is a model, and what Bubble Tea does for it, in virtual time.
type desk struct {
	*top.Model
	t        *testing.T
	server   *rlocktest.Server
	messages chan tea.Msg
	quit     bool
}

// inBubble runs a test with a desk on an empty server. Options may be changed before begin.
func inBubble(t *testing.T, test func(t *testing.T, d *desk, client *rlock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		d := &desk{t: t, server: server, messages: make(chan tea.Msg, 1000)}
		watcher := server.Client(func(c *rlock.Config) { c.Logger = nil })
		d.Model = top.NewModel(top.NewWatcher(watcher, 500), top.Options{Interval: time.Second, Order: top.ByWaiters})
		test(t, d, server.Client())
		time.Sleep(time.Minute) // timers of the model end
	})
}

// run carries out a command of the model.
func (d *desk) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, cmd := range msg {
				d.run(cmd)
			}
		default:
			d.messages <- msg
		}
	}()
}

// settle makes the model handle all messages that are due.
func (d *desk) settle() {
	for {
		synctest.Wait()
		select {
		case msg := <-d.messages:
			if _, ok := msg.(tea.QuitMsg); ok {
				d.quit = true
				continue
			}
			_, cmd := d.Update(msg)
			d.run(cmd)
		default:
			return
		}
	}
}

// pass lets time pass, with the clock of the screen and the looks in it.
func (d *desk) pass(long time.Duration) {
	d.settle()
	for end := time.Now().Add(long); time.Now().Before(end); d.settle() {
		time.Sleep(min(100*time.Millisecond, time.Until(end)))
	}
}

func (d *desk) begin() {
	d.run(d.Init())
	d.settle()
}

// press types keys: one by their names.
func (d *desk) press(keys ...string) {
	for _, key := range keys {
		code := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "left": tea.KeyLeft, "right": tea.KeyRight, "space": tea.KeySpace, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown}[key]
		msg := tea.KeyPressMsg{Code: code}
		if key == "ctrl+c" {
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		} else if code == 0 {
			msg = tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		}
		_, cmd := d.Update(msg)
		d.run(cmd)
		d.settle()
	}
}

// screen returns the text of the screen, without colours.
func (d *desk) screen() string { return ansi.Strip(d.View().Content) }

func (d *desk) hold(client *rlock.Client, name string) *rlock.Hold {
	d.t.Helper()
	hold, err := client.NewLock(name).Acquire(d.t.Context())
	require.NoError(d.t, err)
	return hold
}

// wait makes a client of its own wait for the lock.
func (d *desk) wait(name string) {
	client := d.server.Client()
	go func() {
		if hold, err := client.NewLock(name).Acquire(d.t.Context()); err == nil {
			_ = hold.Release(d.t.Context())
		}
	}()
	synctest.Wait()
}

// The [golden.Steps] of a story are those of perform: "screen" shows the lines of the screen that
// are not empty. What differs from run to run is left out. Lines that begin with "#" say why.
func TestScreens(t *testing.T) {
	golden.Each(t, func(t *testing.T, story string) (got string) {
		inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) { got = d.perform(story, client) })
		return got
	})
}

// unlike is what differs from run to run: owners, perhaps cut off, clients, and times: a
// failed look is repeated after a random pause.
var unlike = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]+(:\d+)?|client [0-9a-f]{8}|\d\d:\d\d:\d\d|\b(\d+m)?\d+(\.\d+)?s\b`)
var spaces = regexp.MustCompile(` {2,}`)

// perform carries out the steps of a story, and returns it with the screens.
func (d *desk) perform(story string, client *rlock.Client) string {
	holds := make(map[string]*rlock.Hold)
	return golden.Steps(story, func(line string, out *strings.Builder) (shows bool) {
		step, value, _ := strings.Cut(line, " ")
		switch step {
		case "", "#":
		case "hold":
			holds[value] = d.hold(client, value)
		case "release":
			require.NoError(d.t, holds[value].Release(d.t.Context()))
		case "wait":
			d.wait(value)
		case "looks":
			_, err := fmt.Sscan(value, &d.Count)
			require.NoError(d.t, err)
		case "begin":
			d.begin()
		case "pass":
			long, err := time.ParseDuration(value)
			require.NoError(d.t, err)
			d.pass(long)
		case "press":
			d.press(strings.Fields(value)...)
		case "refuse":
			d.server.Refuse(value)
		case "silence":
			d.server.Silence()
		case "heal":
			d.server.Heal()
		case "screen":
			for line := range strings.Lines(d.screen()) {
				if line = strings.TrimSpace(line); line != "" {
					fmt.Fprintln(out, spaces.ReplaceAllString(unlike.ReplaceAllString(line, "..."), "  "))
				}
			}
			if d.Err() != nil {
				fmt.Fprintln(out, "! it ends with an error")
			}
			if d.quit {
				fmt.Fprintln(out, "! it has ended")
			}
			return true
		default:
			require.FailNow(d.t, "no such step", line)
		}
		return false
	})
}

func TestEachScreenFitsInItsTerminal(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "odd \x1b[31mname")
		d.hold(client, strings.Repeat("long", 100))
		for i := range 60 {
			d.hold(client, "lock:"+string(rune('0'+i)))
		}
		d.begin()
		for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 5}, {1, 1}, {40, 2}} {
			_, _ = d.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			for _, keys := range [][]string{{}, {"pgdown", "pgdown", "down"}, {"enter"}, {"esc", "?"}, {"x", "/"}, {"esc"}} {
				d.press(keys...)
				lines := strings.Split(d.View().Content, "\n")
				assert.LessOrEqual(t, len(lines), size[1], "%v %v", size, keys)
				for _, line := range lines {
					assert.LessOrEqual(t, ansi.StringWidth(line), size[0], "%v %v", size, keys)
				}
				assert.NotContains(t, d.View().Content, "\x1b[31mname", "names must not control the terminal")
			}
		}
	})
}
