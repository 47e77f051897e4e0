package pubsub_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
)

// An ear records the messages of a subscription with Also.
type ear struct {
	mu   sync.Mutex // protects following
	said []string
}

func (e *ear) hear(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said = append(e.said, message)
}

func (e *ear) heard() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.said
}

func TestAHearerGetsEveryMessageInOrder(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		w.net.SetRoundTrip(time.Millisecond)
		var e ear
		s := wait(w.hub, "a")
		also := s.Also("b", e.hear)
		assert.False(t, also.Confirmed(), "it is not confirmed yet")
		w.net.SetRoundTrip(0)
		time.Sleep(time.Second)
		assert.True(t, isWoken(s), "the confirmations are a wake")
		assert.True(t, also.Confirmed())
		assert.True(t, s.Confirmed())

		for _, message := range []string{"one", "two", ""} {
			w.Publish("b", message)
		}
		assert.Equal(t, []string{"one", "two", ""}, e.heard())
		assert.False(t, isWoken(s), "a message that is heard is no wake")
		w.Publish("a", "three")
		assert.True(t, isWoken(s))
		assert.Len(t, e.heard(), 3)

		also.Close()
		w.Publish("b", "four")
		assert.Len(t, e.heard(), 3)
		assert.NoError(t, s.Refused(), "the other channel goes on")
	})
}

func TestAHeardChannelMarksTheOtherWhenItIsConfirmedAgain(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := wait(w.hub, "a")
		assert.True(t, isWoken(s))
		var e ear
		also := s.Also("b", e.hear)
		assert.True(t, isWoken(s))

		s.Close() // only the other channel is left to be confirmed
		w.net.Cut()
		w.net.Refuse()
		synctest.Wait()
		assert.False(t, also.Confirmed())
		w.net.Heal()
		awaitWake(t, s)
		assert.True(t, also.Confirmed())
		w.Publish("b", "again")
		assert.Equal(t, []string{"again"}, e.heard())
	})
}

func TestAlsoOfAConfirmedChannelSetsNoMark(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		wait(w.hub, "b")
		s := wait(w.hub, "a")
		assert.True(t, isWoken(s))
		var e ear
		assert.True(t, s.Also("b", e.hear).Confirmed())
		assert.False(t, isWoken(s))
		w.Publish("b", "one")
		assert.Equal(t, []string{"one"}, e.heard())
	})
}

// A room subscribes under the mutex that its hearer takes.
func TestAHearerMayCallTheHub(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := woken(t, w.hub, "a")
		var also *pubsub.Subscription
		heard := false
		also = s.Also("b", func(string) {
			heard = also.Confirmed()
			wait(w.hub, "c").Close()
			also.Close()
		})
		synctest.Wait()
		w.Publish("b", "one")
		synctest.Wait()
		assert.True(t, heard)
	})
}

// A plain channel needs no slot, and is heard whichever node the message is published at.
func TestAPlainChannelIsHeardBesideShardedOnes(t *testing.T) {
	redistest.NeedMajor(t, 7) // sharded pub/sub
	for kind, server := range map[string]func(testing.TB, ...string) *redistest.Server{"single": redistest.Standalone, "cluster": redistest.Cluster} {
		t.Run(kind, func(t *testing.T) {
			redis := server(t)
			outside := redis.Client(t)
			hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true, Linger: time.Nanosecond})
			heard := make(chan string, 10)
			for _, name := range channelNames() {
				woken(t, hub, name)
				eventually(t, name+" is counted", func() bool { return hub.Confirmed(name) })
			}
			s := hub.ListenPlain("aside", func(message string) { heard <- message })
			awaitWake(t, s)
			require.True(t, s.Confirmed())
			for _, node := range outside.Nodes() {
				do(t, node, "PUBLISH", "aside", "hello")
				assert.Equal(t, "hello", <-heard)
			}
			for _, name := range channelNames() {
				require.True(t, hub.Confirmed(name), "the other channels are unchanged")
			}
			s.Close()
			eventually(t, "the channel is unsubscribed", func() bool {
				for _, node := range outside.Nodes() {
					if subscribers(t, node, "NUMSUB", "aside") > 0 {
						return false
					}
				}
				return true
			})
		})
	}
}

func TestARefusedPlainChannelIsNoWarning(t *testing.T) {
	var log bytes.Buffer
	bubble(t, pubsub.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, w *world) {
		w.refuse("SUBSCRIBE", "NOPERM no permission")
		s := w.hub.ListenPlain("aside", func(string) {})
		awaitWake(t, s)
		require.Error(t, s.Refused())
		w.hub.Close()
	})
	assert.Contains(t, log.String(), "level=INFO")
	assert.NotContains(t, log.String(), "level=WARN")
}

// The server counts a subscriber until the connection ends, so that the client is relied on.
func TestAListenerHearsForAsLongAsTheServerCountsIt(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		var listens, also ear
		s := w.hub.Listen("a", listens.hear)
		awaitWake(t, s)
		w.hub.Listen("needed", listens.hear)
		b := s.Also("b", also.hear)
		awaitWake(t, s)
		b.Close()
		s.Close()
		for range 6 {
			w.Publish("a", "x")
			w.Publish("b", "y")
			time.Sleep(9 * time.Second)
		}
		assert.Len(t, listens.heard(), 6)
		assert.Empty(t, also.heard())
		time.Sleep(time.Minute)
		assert.Zero(t, w.subscribers("a"))
	})
}

// Instead of a wake a waiter may be called.
func TestAWaiterIsCalledWhenItsSubscriptionIsConfirmed(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) {
		hub := pubsub.New(pubsub.Config{Client: s.Client(t)})
		defer hub.Close()
		woken := make(chan struct{}, 10)
		sub := hub.ListenConfirmed("a", func(string) {}, func() { woken <- struct{}{} })
		<-woken
		assert.True(t, sub.Confirmed())
		also := sub.Also("b", func(string) {})
		<-woken
		assert.True(t, also.Confirmed())
	})
}
