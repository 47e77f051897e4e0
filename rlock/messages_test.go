package rlock_test

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

// A listener is subscribed to a lock's channel, as a Java waiter is.
type listener struct {
	s        *site
	family   family
	channel  string
	messages chan string
}

// listen returns a listener once its subscription is confirmed. The subscription ends with
// the test.
func (s *site) listen(f family, channel string) *listener {
	s.t.Helper()
	l := &listener{s: s, family: f, channel: channel, messages: make(chan string, 10_000)}
	client := s.Client(s.t)
	subscribe := client.B().Subscribe().Channel(channel).Build()
	if f == sharded {
		subscribe = client.B().Ssubscribe().Channel(channel).Build()
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(s.ctx)
	go func() {
		defer close(done)
		_ = client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { l.messages <- m.Message })
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	s.awaitListeners(1, f, channel)
	return l
}

// heard returns all messages since the last call. The listener publishes a message of its
// own, which comes after all others.
func (l *listener) heard() (messages []string) {
	l.s.t.Helper()
	const last = "that was all"
	l.s.number(l.family.publish, l.channel, last)
	for {
		select {
		case m := <-l.messages:
			if m == last {
				return messages
			}
			messages = append(messages, m)
		case <-l.s.ctx.Done():
			require.FailNow(l.s.t, "the listener's own message did not arrive")
		}
	}
}

// A monitor sees every command that a single server executes, and whether a client or a
// script sent it.
type monitor struct {
	s     *site
	lines *bufio.Scanner
}

// A command as MONITOR shows it: time, database, client or "lua", arguments.
var monitored = regexp.MustCompile(`^\+[0-9.]+ \[0 (\S+)\] "([^"]*)"(.*)$`)

func (s *site) monitor() *monitor {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(s.t, err)
	m := &monitor{s: s, lines: bufio.NewScanner(conn)}
	require.True(s.t, m.lines.Scan(), "OK")
	return m
}

// seen returns the names of the commands since the last call, without pings: first those of
// clients, then those of scripts.
func (m *monitor) seen() (sent, byScript []string) {
	m.s.t.Helper()
	const last = "that was all"
	require.NoError(m.s.t, m.s.do("ECHO", last).Error())
	for m.lines.Scan() {
		fields := monitored.FindStringSubmatch(m.lines.Text())
		require.NotNil(m.s.t, fields, m.lines.Text())
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
	require.FailNow(m.s.t, "the monitor's connection ended", m.lines.Err())
	return nil, nil
}

// wakes asserts that the messages of one client wake the waiters of another.
func (s *site) wakes(here, there *rlock.Client, f family) {
	s.t.Helper()
	w := awakening{s: s}
	for round := range 12 {
		name := fmt.Sprintf("orders:%d", round) // with a subscription of its own
		require.NoError(s.t, here.NewLock(name).Lock(s.ctx))
		waiter := background(func() error { return there.NewLock(name).Do(s.ctx, nothing) })
		s.awaitWaiters(1, name)
		w.by(waiter, func() { require.NoError(s.t, here.NewLock(name).Unlock(s.ctx)) })
	}
	w.check()
}

// An awakening counts the waiters that are woken by messages, as opposed to those that sleep
// until their fallback, five seconds after their last query. A busy machine may delay one for
// as long, but not most of them.
type awakening struct {
	s              *site
	rounds, prompt int
}

// by runs release, and returns when the waiter has the lock.
func (w *awakening) by(waiter <-chan error, release func()) {
	w.s.t.Helper()
	released := time.Now()
	release()
	require.NoError(w.s.t, w.s.await(waiter), "round %d", w.rounds)
	w.rounds++
	if time.Since(released) < 4*time.Second {
		w.prompt++
	}
}

func (w *awakening) check() {
	w.s.t.Helper()
	assert.Greater(w.s.t, w.prompt, w.rounds/2, "of %d waiters", w.rounds)
}

// evalshas returns the number of EVALSHA, without the EVAL that repeats a script which the
// server does not know.
func evalshas(sent []network.Frame) (n int) {
	for _, f := range sent {
		if f.Is("EVALSHA") {
			n++
		}
	}
	return n
}
