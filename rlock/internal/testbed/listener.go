package testbed

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Listener is subscribed to a lock's channel, as a Java waiter is.
type Listener struct {
	s        *Site
	family   Family
	channel  string
	messages chan string
}

// Listen returns a listener once its subscription is confirmed. The subscription ends with
// the test.
func (s *Site) Listen(f Family, channel string) *Listener {
	s.T.Helper()
	l := &Listener{s: s, family: f, channel: channel, messages: make(chan string, 10_000)}
	client := s.Client(s.T)
	subscribe := client.B().Subscribe().Channel(channel).Build()
	if f == Sharded {
		subscribe = client.B().Ssubscribe().Channel(channel).Build()
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(s.Ctx)
	go func() {
		defer close(done)
		_ = client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { l.messages <- m.Message })
	}()
	s.T.Cleanup(func() { cancel(); <-done })
	s.AwaitListeners(1, f, channel)
	return l
}

// Heard returns all messages since the last call. The listener publishes a message of its
// own, which comes after all others.
func (l *Listener) Heard() (messages []string) {
	l.s.T.Helper()
	const last = "that was all"
	l.s.Number(l.family.Publish, l.channel, last)
	for {
		select {
		case m := <-l.messages:
			if m == last {
				return messages
			}
			messages = append(messages, m)
		case <-l.s.Ctx.Done():
			require.FailNow(l.s.T, "the listener's own message did not arrive")
		}
	}
}

// A monitor sees every command that a single server executes, and whether a client or a
// script sent it.
type monitor struct {
	s     *Site
	lines *bufio.Scanner
}

// A command as MONITOR shows it: time, database, client or "lua", arguments.
var monitored = regexp.MustCompile(`^\+[0-9.]+ \[0 (\S+)\] "([^"]*)"(.*)$`)

func (s *Site) Monitor() *monitor {
	s.T.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(s.T, err)
	s.T.Cleanup(func() { conn.Close() })
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(s.T, err)
	m := &monitor{s: s, lines: bufio.NewScanner(conn)}
	require.True(s.T, m.lines.Scan(), "OK")
	return m
}

// Seen returns the names of the commands since the last call, without pings: first those of
// clients, then those of scripts.
func (m *monitor) Seen() (sent, byScript []string) {
	m.s.T.Helper()
	const last = "that was all"
	require.NoError(m.s.T, m.s.Do("ECHO", last).Error())
	for m.lines.Scan() {
		fields := monitored.FindStringSubmatch(m.lines.Text())
		require.NotNil(m.s.T, fields, m.lines.Text())
		client, command, arguments := fields[1], strings.ToLower(fields[2]), fields[3]
		switch {
		case command == "echo" && strings.Contains(arguments, last):
			return sent, byScript
		case command == "ping": // a connection was idle for a second
		case client == "lua":
			byScript = append(byScript, command)
		default:
			sent = append(sent, command)
		}
	}
	require.FailNow(m.s.T, "the monitor's connection ended", m.lines.Err())
	return nil, nil
}

// Wakes asserts that the messages of one client wake the waiters of another.
func (s *Site) Wakes(here, there *rlock.Client, f Family) {
	s.T.Helper()
	w := Awakening{Site: s}
	for round := range 12 {
		name := fmt.Sprintf("orders:%d", round) // with a subscription of its own
		require.NoError(s.T, here.NewLock(name).Lock(s.Ctx))
		waiter := Start(func() error { return there.NewLock(name).Do(s.Ctx, Nothing) })
		s.AwaitWaiters(1, name)
		w.By(waiter, func() { require.NoError(s.T, here.NewLock(name).Unlock(s.Ctx)) })
	}
	w.Check()
}

// An Awakening counts the waiters that are woken by messages, as opposed to those that sleep
// until their fallback, five seconds after their last query. A busy machine may delay one for
// as long, but not most of them.
type Awakening struct {
	Site           *Site
	rounds, prompt int
}

// By runs release, and returns when the waiter has the lock.
func (w *Awakening) By(waiter <-chan error, release func()) {
	w.Site.T.Helper()
	released := time.Now()
	release()
	require.NoError(w.Site.T, w.Site.Await(waiter), "round %d", w.rounds)
	w.rounds++
	if time.Since(released) < 4*time.Second {
		w.prompt++
	}
}

func (w *Awakening) Check() {
	w.Site.T.Helper()
	assert.Greater(w.Site.T, w.prompt, w.rounds/2, "of %d waiters", w.rounds)
}

// Evalshas returns the number of EVALSHA, without the EVAL that repeats a script which the
// server does not know.
func Evalshas(sent []network.Frame) (n int) {
	for _, f := range sent {
		if f.Is("EVALSHA") {
			n++
		}
	}
	return n
}
