package pubsub_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/pubsub"
)

func TestAListenerGetsEachMessageAndIsWokenByConfirmationsOnly(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		w.net.SetRoundTrip(time.Millisecond)
		var heard []string
		s := w.hub.Listen("news", func(message string) { heard = append(heard, message) })
		require.False(t, s.Confirmed(), "it is not confirmed yet")
		w.net.SetRoundTrip(0)
		awaitWake(t, s)
		require.True(t, s.Confirmed())
		w.Publish("news", "0")
		w.Publish("news", "1")
		synctest.Wait()
		require.Equal(t, []string{"0", "1"}, heard)
		require.Empty(t, s.C())

		later := w.hub.Listen("news", func(string) {})
		require.True(t, later.Confirmed())
		require.Empty(t, later.C(), "confirmed before")
		later.Close()

		w.net.Cut()
		synctest.Wait()
		require.False(t, s.Confirmed(), "messages may be lost")
		awaitWake(t, s)
		require.True(t, s.Confirmed(), "confirmed anew")
		s.Close()
	})
}

func TestOtherSubscriptionsOfAChannelOutliveOne(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		subs := make([]*waiter, 5)
		for i := range subs {
			subs[i] = wait(w.hub, "a")
			awaitWake(t, subs[i])
		}
		subs[1].Close()
		subs[1].Close()
		subs[4].Close()
		time.Sleep(time.Minute)
		w.Publish("a", "0")
		for i, s := range subs {
			assert.Equal(t, i != 1 && i != 4, isWoken(s), "subscription %d", i)
		}
	})
}

func TestAChannelLingersAfterItsLastSubscription(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		s := woken(t, w.hub, "a")
		connections := w.CurrentConnectionCount()
		s.Close()
		time.Sleep(5*time.Second - 1)
		assert.True(t, w.hub.Confirmed("a"))
		assert.Equal(t, 1, w.subscribers("a"))

		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.False(t, w.hub.Confirmed("a"))
		assert.Equal(t, connections, w.CurrentConnectionCount(), "the connection waits for the next channel")

		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, connections-1, w.CurrentConnectionCount(), "the connection ends after a while")
		assert.Zero(t, w.subscribers("a"))
		woken(t, w.hub, "a")
	})
}

func TestASubscribeEndsTheLingering(t *testing.T) {
	bubble(t, pubsub.Config{Linger: time.Second}, func(t *testing.T, w *world) {
		s := wait(w.hub, "a")
		for range 10 {
			awaitWake(t, s)
			s.Close()
			time.Sleep(900 * time.Millisecond)
			s = wait(w.hub, "a")
		}
		time.Sleep(time.Minute)
		assert.True(t, w.hub.Confirmed("a"))
		assert.Len(t, w.sent("SUBSCRIBE"), 1)
	})
}

func TestANegativeLingerKeepsNothing(t *testing.T) {
	bubble(t, pubsub.Config{Linger: -1}, func(t *testing.T, w *world) {
		connections := w.CurrentConnectionCount()
		s := woken(t, w.hub, "a")
		s.Close()
		synctest.Wait()
		assert.Zero(t, w.subscribers("a"))
		assert.Equal(t, connections, w.CurrentConnectionCount())
	})
}

func TestAChannelThatComesBackWhileItIsGivenUpIsSubscribedAgain(t *testing.T) {
	bubble(t, pubsub.Config{Linger: -1}, func(t *testing.T, w *world) {
		other := wait(w.hub, "other") // keeps the connection
		awaitWake(t, other)
		for range 200 {
			s := woken(t, w.hub, "a")
			s.Close() // wakes the link, which takes another connection during the next Subscribe
		}
		woken(t, w.hub, "a")
		synctest.Wait()
		assert.True(t, w.hub.Confirmed("a"))
		assert.Equal(t, 1, w.subscribers("a"))
	})
}

// together subscribes to n channels, c0 and so on, that wait until the server has answered for
// another one. answer is that of the server to the other commands.
func (w *world) together(t *testing.T, n int, answer func(command string, args []string) string) []*waiter {
	underWay, goOn := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(underWay) })
	w.answer(func(command string, args []string) string {
		if command == "SUBSCRIBE" && args[0] == "first" {
			begun()
			<-goOn
			return ""
		}
		return answer(command, args)
	})
	first := wait(w.hub, "first")
	<-underWay
	subs := make([]*waiter, n)
	for i := range subs {
		subs[i] = wait(w.hub, fmt.Sprint("c", i))
	}
	close(goOn)
	awaitWake(t, first)
	for i, s := range subs {
		awaitWake(t, s)
		require.True(t, w.hub.Confirmed(fmt.Sprint("c", i)))
	}
	return subs
}

func TestChannelsThatWaitAreSubscribedTogether(t *testing.T) {
	bubble(t, pubsub.Config{Linger: time.Second}, func(t *testing.T, w *world) {
		subs := w.together(t, 2500, func(string, []string) string { return "" })
		synctest.Wait() // the last channel is confirmed before the server reads the command that asks for it again
		assert.Len(t, w.sent("SUBSCRIBE"), 1+3+1, "a thousand channels each, and the last one again")

		for _, s := range subs { // at the same instant of virtual time
			s.Close()
		}
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"first"}, w.PubSubChannels(""))
	})
}

func TestCloseRefusesTheOpenSubscriptions(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		connections := w.CurrentConnectionCount()
		s := woken(t, w.hub, "a")
		w.hub.Close()
		assert.EqualValues(t, 1, w.open.Load(), "when Close returns, only the commands' connection is open")
		w.hub.Close()
		assert.True(t, isWoken(s))
		require.ErrorIs(t, s.Refused(), pubsub.ErrClosed)
		assert.False(t, w.hub.Confirmed("a"))
		assert.Zero(t, w.subscribers("a"))
		assert.Equal(t, connections, w.CurrentConnectionCount())
		s.Close()

		late := wait(w.hub, "a")
		assert.True(t, isWoken(late))
		require.ErrorIs(t, late.Refused(), pubsub.ErrClosed)
		late.Close()
	})
}

// A subscription may come before there is a client, and end before.
func TestChannelsWaitForAHubToOpen(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		hub := pubsub.New(pubsub.Config{})
		defer hub.Close()
		waits, left := wait(hub, "waits"), wait(hub, "left")
		left.Close()
		require.False(t, isWoken(waits))
		require.False(t, hub.Confirmed("waits"))
		require.Zero(t, hub.Links())

		hub.Open(w.client, false)
		awaitWake(t, waits)
		assert.True(t, waits.Confirmed())
		assert.True(t, hub.Confirmed("waits"))
	})
}

func TestAHubThatWasNeverOpenedCloses(t *testing.T) {
	hub := pubsub.New(pubsub.Config{})
	waits := wait(hub, "c")
	hub.Close()
	assert.ErrorIs(t, waits.Refused(), pubsub.ErrClosed)
}

func TestTheHubMayBeUsedConcurrently(t *testing.T) {
	bubble(t, pubsub.Config{Linger: time.Millisecond}, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for j := range 50 {
					name := fmt.Sprint("c", (i+j)%5)
					s := woken(t, w.hub, name)
					w.hub.Confirmed(name)
					s.Close()
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		assert.Empty(t, w.PubSubChannels(""))
	})
}

func TestOneRefusedChannelDoesNotDisturbOthers(t *testing.T) {
	bubble(t, pubsub.Config{Linger: time.Second}, func(t *testing.T, w *world) {
		permitted := false
		w.answer(func(command string, args []string) string {
			if command == "SUBSCRIBE" && !permitted && strings.Contains(strings.Join(args, " "), "secret") {
				return "NOPERM No permissions to access a channel"
			}
			return ""
		})
		a, secret, b := wait(w.hub, "a"), wait(w.hub, "secret"), wait(w.hub, "b")
		awaitWake(t, a, secret, b)
		require.NoError(t, a.Refused())
		require.NoError(t, b.Refused())
		require.ErrorContains(t, secret.Refused(), "NOPERM")
		assert.True(t, w.hub.Confirmed("a"))
		assert.False(t, w.hub.Confirmed("secret"))

		again := wait(w.hub, "secret")
		assert.True(t, isWoken(again), "known already")
		require.ErrorContains(t, again.Refused(), "NOPERM")

		permitted = true
		secret.Close()
		again.Close()
		time.Sleep(time.Minute)
		again = wait(w.hub, "secret")
		awaitWake(t, again)
		require.NoError(t, again.Refused())
		assert.True(t, w.hub.Confirmed("secret"))
	})
}

func TestAServerThatIsLoadingIsAskedAgain(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		begin := time.Now()
		w.answer(func(command string, _ []string) string {
			if command == "SUBSCRIBE" && time.Since(begin) < 10*time.Second {
				return "BUSY Redis is busy running a script"
			}
			return ""
		})
		s := woken(t, w.hub, "a")
		require.NoError(t, s.Refused())
		assert.True(t, w.hub.Confirmed("a"))
		assert.Less(t, time.Since(begin), 11*time.Second)
	})
}

// rueidis repeats a whole batch of which a part was answered, and has released that part by then,
// unless retries are off.
func TestABatchOfWhichAPartIsAnsweredIsSentAgain(t *testing.T) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		loading := true
		w.together(t, 2000, func(command string, args []string) string {
			if command == "SUBSCRIBE" && args[0] == "c1000" && loading {
				loading = false
				return "LOADING Redis is loading the dataset in memory"
			}
			return ""
		})
		assert.False(t, loading)
	})
}
