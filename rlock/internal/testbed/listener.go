package testbed

import (
	"context"
	"fmt"
	"time"

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
