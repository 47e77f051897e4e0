package top_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/top"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
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
		if code == 0 {
			msg = tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		}
		_, cmd := d.Update(msg)
		d.run(cmd)
		d.settle()
	}
}

// screen returns the text of the screen, without colours.
func (d *desk) screen() string { return ansi.Strip(d.View().Content) }

// names returns the names in the table, from above.
func (d *desk) names() (names []string) {
	inTable := false
	for line := range strings.Lines(d.screen()) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "NAME"):
			inTable = true
		case len(fields) == 0:
			inTable = false
		case inTable:
			names = append(names, fields[0])
		}
	}
	return names
}

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

func TestTheLockWithTheMostWaitersIsFirstUnlessAKeySaysOtherwise(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "b:calm")
		d.hold(client, "c:busy")
		d.wait("c:busy")
		d.wait("c:busy")
		d.begin()
		d.pass(10 * time.Second)
		d.hold(client, "a:late")
		d.wait("a:late")
		d.pass(2 * time.Second)
		assert.Equal(t, []string{"c:busy", "a:late", "b:calm"}, d.names())
		assert.Contains(t, d.screen(), "3 held")
		assert.Contains(t, d.screen(), "3 waiting")
		d.press("n")
		assert.Equal(t, []string{"a:late", "b:calm", "c:busy"}, d.names())
		d.press("s")
		assert.Equal(t, []string{"b:calm", "c:busy", "a:late"}, d.names(), "the longest seen first")
		d.press("r")
		assert.Equal(t, "a:late", d.names()[0], "the holder is new")
		d.press("w")
		assert.Equal(t, "c:busy", d.names()[0])
	})
}

func TestAFilterIsAPartOfTheNameOrAPattern(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		for _, name := range []string{"orders:1", "orders:2", "stock:1"} {
			d.hold(client, name)
		}
		d.begin()
		d.press("/", "t", "o", "x")
		assert.Contains(t, d.screen(), "filter: tox")
		assert.Len(t, d.names(), 3, "the pattern is not in use yet")
		d.press("backspace", "enter")
		assert.Equal(t, []string{"stock:1"}, d.names())
		d.press("/")
		for range "*sto*" {
			d.press("backspace")
		}
		d.press("*", ":", "1", "enter")
		assert.Equal(t, []string{"orders:1", "stock:1"}, d.names())
		d.press("/", "q", "esc")
		assert.Equal(t, []string{"orders:1", "stock:1"}, d.names(), "the pattern is unchanged")
		assert.False(t, d.quit, "q is a letter while the pattern is typed")
		d.press("/", "x", "enter")
		assert.Contains(t, d.screen(), "no lock that is held matches the filter")
	})
}

func TestANewFilterLeavesNoRowOfTheLastOneOnTheScreen(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "orders:1")
		d.hold(client, "stock:1")
		d.begin()
		require.Len(t, d.names(), 2)
		d.server.Silence()
		d.press("/", "s", "t", "o", "enter")
		assert.Empty(t, d.names(), "the look with the filter is not answered yet")
		d.pass(15 * time.Second)
		assert.Contains(t, d.screen(), "failing since")
		assert.Empty(t, d.names())
		d.server.Heal()
		d.pass(10 * time.Second)
		assert.Equal(t, []string{"stock:1"}, d.names())
		d.server.Silence()
		d.press("/", "enter")
		assert.Equal(t, []string{"stock:1"}, d.names(), "the filter is the same")
		d.server.Heal()
	})
}

func TestEnterLooksIntoALockAndEscapeGoesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "orders:1")
		hold := d.hold(client, "orders:2")
		d.begin()
		d.press("down", "enter")
		for range 10 {
			d.press("right")
		}
		assert.Contains(t, d.screen(), fmt.Sprint(":", inspect.Of(client).Held()[1].Owner), "the owner is in the last column")
		for range 10 {
			d.press("left")
		}
		assert.Regexp(t, `Name: +orders:2`, d.screen())
		assert.NotContains(t, d.screen(), "orders:1")
		d.wait("orders:2")
		d.pass(2 * time.Second)
		assert.Contains(t, d.screen(), "1 of rlock", "the lock is inspected again")
		assert.Contains(t, d.screen(), "TICKET")
		require.NoError(t, hold.Release(t.Context()))
		d.pass(2 * time.Second)
		assert.Contains(t, d.screen(), "free")
		d.press("esc")
		assert.Equal(t, "orders:1", d.names()[0])
	})
}

func TestTheCursorStaysOnItsLock(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "b")
		d.hold(client, "d")
		d.begin()
		d.press("n", "down")
		d.hold(client, "a")
		d.hold(client, "c")
		d.pass(2 * time.Second)
		d.press("enter")
		assert.Regexp(t, `Name: +d\n`, d.screen())
	})
}

func TestALostServerIsShownWithTheTimeAndTheLooksGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "orders:1")
		d.begin()
		d.server.Refuse("LOADING Redis is loading the dataset in memory")
		d.pass(20 * time.Second)
		assert.Regexp(t, `failing since \d\d:\d\d:\d\d \(1\ds\): .*LOADING`, d.screen())
		assert.Equal(t, []string{"orders:1"}, d.names(), "the last rows stay")
		require.Error(t, d.Err())
		d.server.Heal()
		d.pass(2 * time.Second)
		assert.NotContains(t, d.screen(), "failing")
		assert.Equal(t, []string{"orders:1"}, d.names())
		require.NoError(t, d.Err())

		d.server.Silence()
		d.pass(3 * time.Second)
		assert.Contains(t, d.screen(), "no answer for ")
		d.pass(20 * time.Second)
		assert.Contains(t, d.screen(), "failing since")
		d.server.Heal()
		d.pass(20 * time.Second)
		assert.NotContains(t, d.screen(), "failing")
	})
}

func TestThereAreNoLooksDuringAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, d *desk, client *rlock.Client) {
		d.hold(client, "a")
		d.begin()
		d.press("space")
		d.hold(client, "b")
		d.pass(10 * time.Second)
		assert.Equal(t, []string{"a"}, d.names())
		assert.Contains(t, d.screen(), "paused, as of ")
		d.press("space")
		assert.Equal(t, []string{"a", "b"}, d.names())
		d.hold(client, "c")
		d.pass(2 * time.Second)
		assert.Equal(t, []string{"a", "b", "c"}, d.names())
	})
}

func TestQuitAndTheCountOfLooksEndIt(t *testing.T) {
	for _, key := range []string{"q", "ctrl+c"} {
		inBubble(t, func(t *testing.T, d *desk, _ *rlock.Client) {
			d.begin()
			d.press("?")
			assert.Contains(t, d.screen(), "Losses are not shown")
			d.press("x")
			assert.Contains(t, d.screen(), "no lock is held")
			assert.False(t, d.quit)
			if key == "ctrl+c" {
				_, cmd := d.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
				d.run(cmd)
				d.settle()
			} else {
				d.press(key)
			}
			assert.True(t, d.quit)
		})
	}
	inBubble(t, func(t *testing.T, d *desk, _ *rlock.Client) {
		d.Count = 3
		d.begin()
		d.pass(1500 * time.Millisecond)
		assert.False(t, d.quit)
		d.pass(time.Second)
		assert.True(t, d.quit)
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
