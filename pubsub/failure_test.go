package pubsub_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/pubsub"
)

func TestALostConnectionIsOpenedAgainAndMarks(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		a, b := wait(w.hub, "a"), wait(w.hub, "b")
		awaitWake(t, a, b)
		synctest.Wait() // the command is answered: rueidis tries one that is not again for a while

		w.net.Refuse()
		synctest.Wait()
		assert.False(t, w.hub.Confirmed("a"))
		assert.False(t, isWoken(a), "a loss is no wake: the next confirmation does")

		time.Sleep(time.Hour)
		w.net.Heal()
		back := time.Now()
		awaitWake(t, a, b)
		assert.LessOrEqual(t, time.Since(back), time.Second)
		assert.True(t, w.hub.Confirmed("a"))
		assert.False(t, isWoken(a), "one confirmation is one wake")
		w.Publish("a", "0")
		assert.True(t, isWoken(a))
	})
}

func TestAShortInterruptionIsOverInMilliseconds(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := woken(t, w.hub, "a")
		for range 5 {
			w.net.Cut()
			begin := time.Now()
			awaitWake(t, s)
			assert.LessOrEqual(t, time.Since(begin), 2*time.Millisecond)
		}
	})
}

func TestAChannelThatOnlyLingersIsNotSubscribedAgain(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		a, b, c := wait(w.hub, "a"), wait(w.hub, "b"), wait(w.hub, "c")
		awaitWake(t, a, b, c)
		a.Close() // lingers when the connection is lost
		w.net.Refuse()
		synctest.Wait()
		b.Close() // leaves while there is no connection
		w.net.Heal()
		awaitWake(t, c)
		assert.Equal(t, map[string]int{"a": 0, "b": 0, "c": 1}, w.PubSubNumSub("a", "b", "c"))
		woken(t, w.hub, "a")
	})
}

func TestAConnectionIsNotOpenedWithoutSubscriptions(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		w.net.Refuse()
		s := wait(w.hub, "a")
		time.Sleep(time.Minute)
		s.Close()
		time.Sleep(time.Minute)
		w.net.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.sent("SUBSCRIBE"))
		woken(t, w.hub, "a")
	})
}

// The client's pings find a dead peer, even on a connection that sends nothing else: two KeepAlive
// of 1 s plus ConnWriteTimeout of 2 s.
func TestASilentConnectionIsGivenUp(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := woken(t, w.hub, "a")
		time.Sleep(time.Hour)
		begin := time.Now()
		w.net.Rule(network.Silence)
		time.Sleep(2 * time.Second)
		w.net.Rule(nil) // new connections work
		awaitWake(t, s)
		assert.LessOrEqual(t, time.Since(begin), 4*time.Second+10*time.Millisecond)
		assert.True(t, w.hub.Confirmed("a"))
	})
}

// A server that answers pings but not SUBSCRIBE keeps its connection until the time limit of the
// batch.
func TestABatchWithoutAnAnswerEndsItsConnection(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		woken(t, w.hub, "a")
		w.net.Rule(network.Nth(1, network.Drop, network.Push, "subscribe"))
		woken(t, w.hub, "b")
		synctest.Wait() // the new connection confirms one after the other
		assert.True(t, w.hub.Confirmed("a"))
		assert.True(t, w.hub.Confirmed("b"))
	})
}

func TestCloseDoesNotWaitForAServerThatIsAway(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"down":   func(w *world) { w.net.Refuse() },
		"silent": func(w *world) { w.net.Rule(network.Silence) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
				s := woken(t, w.hub, "a")
				fail(w)
				wait(w.hub, "b") // is under way
				time.Sleep(100 * time.Millisecond)
				begin := time.Now()
				w.hub.Close()
				assert.LessOrEqual(t, time.Since(begin), time.Second)
				require.ErrorIs(t, s.Refused(), pubsub.ErrClosed)
			})
		})
	}
}

func TestTheLogTellsOfALossOfItsEndAndOnceOfARefusal(t *testing.T) {
	var log bytes.Buffer
	bubble(t, pubsub.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, w *world) {
		s := woken(t, w.hub, "a")
		w.net.Refuse()
		time.Sleep(time.Minute)
		w.net.Heal()
		awaitWake(t, s)
		w.refuse("SUBSCRIBE", "NOPERM no permission")
		woken(t, w.hub, "b")
		woken(t, w.hub, "c")
		w.hub.Close()
	})
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN msg=\"rlock: the connection for messages is lost"), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "level=INFO msg=\"rlock: there is a connection for messages again\""), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN msg=\"rlock: the server refuses a subscription"), log.String())
	assert.Equal(t, 3, strings.Count(log.String(), "level="), log.String())
}

// A server with too many clients accepts a connection, reports the error, and closes it. Waiters
// can only wait for room.
func TestWaitersAreNotifiedOnceThatTheServerTakesNoMoreConnections(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	bubble(t, pubsub.Config{Logger: logger}, func(t *testing.T, w *world) {
		w.full.Store(true)
		s := woken(t, w.hub, "a")
		require.Error(t, s.Refused())
		also := woken(t, w.hub, "b")
		require.Error(t, also.Refused())
		late := woken(t, w.hub, "a")
		time.Sleep(30 * time.Second)
		assert.Equal(t, 1, strings.Count(log.String(), "the server ends connections for subscriptions"))
		assert.False(t, w.hub.Confirmed("a"))

		w.full.Store(false)
		for _, s := range []*waiter{s, also, late} {
			awaitWake(t, s)
			assert.NoError(t, s.Refused())
		}
		assert.True(t, w.hub.Confirmed("a"))
	})
}

func TestAFullServerIsLeftAloneUntilTheNextSubscription(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		dialed := func(run func()) int64 {
			before := w.dialed.Load()
			run()
			return w.dialed.Load() - before
		}
		w.full.Store(true)
		plain := w.hub.ListenPlain("aside", func(string) {})
		awaitWake(t, plain)
		assert.LessOrEqual(t, dialed(func() { time.Sleep(10 * time.Minute) }), int64(40))

		var waits *waiter
		began := time.Now()
		assert.Positive(t, dialed(func() {
			waits = wait(w.hub, "a")
			awaitWake(t, waits)
		}))
		assert.Less(t, time.Since(began), 5*time.Second, "a call waits")
		w.full.Store(false)
		awaitWake(t, waits)
		assert.True(t, waits.Confirmed())

		awaitWake(t, plain)
		assert.True(t, plain.Confirmed())
	})
}

func TestAPlainChannelIsSubscribedOnceTheServerHasRoom(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		w.full.Store(true)
		plain := w.hub.ListenPlain("aside", func(string) {})
		awaitWake(t, plain)
		time.Sleep(10 * time.Minute)
		w.full.Store(false)
		time.Sleep(30 * time.Second)
		assert.True(t, plain.Confirmed())
	})
}

func TestAServerThatIsDownIsNoReasonToPoll(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		w.net.Refuse()
		s := wait(w.hub, "a")
		time.Sleep(time.Minute)
		assert.NoError(t, s.Refused())
		assert.False(t, isWoken(s))
	})
}
