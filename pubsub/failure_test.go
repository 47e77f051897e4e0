package pubsub_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALostConnectionIsOpenedAgainAndWakes(t *testing.T) {
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
		assert.NoError(t, s.Refused(), "a server that is down is no reason to poll")
		assert.False(t, isWoken(s))
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
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN msg=\"rlock: Redis does not notify waiters"), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "level=INFO msg=\"rlock: Redis notifies waiters again\""), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN msg=\"rlock: Redis refuses to notify waiters"), log.String())
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
		other := woken(t, w.hub, "b")
		require.Error(t, other.Refused())
		began := time.Now()
		late := woken(t, w.hub, "a")
		assert.Zero(t, time.Since(began), "it is known already")
		var e ear
		beside := w.hub.Listen("c", e.hear)
		awaitWake(t, beside)
		also := beside.Also("a", e.hear)
		assert.True(t, isWoken(beside), "it is known already")
		also.Close()
		time.Sleep(30 * time.Second)
		assert.Equal(t, 1, strings.Count(log.String(), "Redis ends the connections over which it notifies waiters"))
		assert.False(t, w.hub.Confirmed("a"))

		w.full.Store(false)
		for _, s := range []*waiter{s, other, late} {
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

// refusals are what servers answer instead of serving a command.
var refusals = []string{
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"LOADING Redis is loading the dataset in memory",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"NOPERM this user has no permissions to run the 'subscribe' command",
	"NOAUTH Authentication required.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"MOVED 42 127.0.0.1:6379",
	"CLUSTERDOWN The cluster is down",
	"ERR anything",
}

// left is a world with one channel that is needed and one that was left just now: the server has
// both.
func left(t *testing.T, run func(t *testing.T, w *world, needed *waiter)) {
	bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
		needed, other := wait(w.hub, "needed"), wait(w.hub, "other")
		awaitWake(t, needed, other)
		other.Close()
		time.Sleep(5 * time.Second)
		assert.False(t, w.hub.Confirmed("other"))
		assert.Equal(t, map[string]int{"needed": 1, "other": 1}, w.PubSubNumSub("needed", "other"))
		assert.False(t, isWoken(needed))
		run(t, w, needed)
	})
}

const keepTime = 50 * time.Second // ten times Linger

func TestAChannelThatIsLeftEndsWithItsConnection(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		connections := w.CurrentConnectionCount()
		time.Sleep(keepTime - 1)
		assert.Equal(t, 1, w.subscribers("other"), "a connection costs more than a channel")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, map[string]int{"needed": 1, "other": 0}, w.PubSubNumSub("needed", "other"))
		assert.Equal(t, connections, w.CurrentConnectionCount())
		assert.True(t, isWoken(needed), "a message may have been missed")
		assert.False(t, isWoken(needed), "one confirmation is one wake")
		assert.True(t, needed.Confirmed())
		w.Publish("needed", "0")
		assert.True(t, isWoken(needed))

		before := w.dialed.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, before, w.dialed.Load(), "nothing is left")
	})
}

func TestAChannelThatIsLeftIsThereAtOnceWhenItIsWantedAgain(t *testing.T) {
	left(t, func(t *testing.T, w *world, _ *waiter) {
		sent := len(w.sent("SUBSCRIBE"))
		other := wait(w.hub, "other")
		assert.True(t, other.Confirmed())
		assert.True(t, w.hub.Confirmed("other"))
		assert.True(t, isWoken(other))
		w.Publish("other", "0")
		assert.True(t, isWoken(other))
		time.Sleep(30 * time.Minute)
		assert.Len(t, w.sent("SUBSCRIBE"), sent)
		other.Close()
		time.Sleep(30 * time.Minute)
		assert.Zero(t, w.subscribers("other"))
	})
}

func TestNoChannelIsUnconfirmedWhileTheConnectionIsRenewed(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		w.net.SetRoundTrip(40 * time.Millisecond)
		var e ear // two connections may give it a message at a time
		also := needed.Also("news", e.hear)
		defer also.Close()
		awaitWake(t, needed)
		dialed := w.dialed.Load()
		for i := range 6000 { // a minute
			time.Sleep(10 * time.Millisecond)
			require.True(t, needed.Confirmed())
			require.True(t, also.Confirmed())
			w.Publish("news", strconv.Itoa(i))
		}
		time.Sleep(time.Second)
		heard := e.heard()
		assert.Equal(t, dialed+1, w.dialed.Load(), "renewed once")
		assert.True(t, isWoken(needed), "one may have been missed")
		assert.InDelta(t, 6000, len(heard), 1)
		assert.InDelta(t, 6000, len(slices.Compact(heard)), 1)
	})
}

// While the new connection subscribes, a channel that was left is wanted again.
func TestAChannelThatComesBackDuringTheRenewalStaysConfirmed(t *testing.T) {
	left(t, func(t *testing.T, w *world, _ *waiter) {
		w.net.Rule(network.Nth(1, network.Hold, network.Request, "SUBSCRIBE"))
		time.Sleep(keepTime)
		synctest.Wait()
		other := wait(w.hub, "other")
		require.True(t, other.Confirmed())
		w.net.Deliver()
		time.Sleep(time.Second)
		assert.True(t, other.Confirmed())
		assert.True(t, isWoken(other))
		assert.Equal(t, map[string]int{"needed": 1, "other": 1}, w.PubSubNumSub("needed", "other"))
		w.Publish("other", "0")
		assert.True(t, isWoken(other))
	})
}

func TestARenewalThatIsRefusedChangesNothing(t *testing.T) {
	redistest.Slow(t)
	for _, refusal := range refusals {
		for _, command := range []string{"HELLO", "SUBSCRIBE", "PING", ""} {
			t.Run(command+" "+refusal, func(t *testing.T) {
				left(t, func(t *testing.T, w *world, needed *waiter) {
					w.refuse(command, refusal)
					time.Sleep(keepTime + 10*time.Second)
					synctest.Wait()
					require.True(t, needed.Confirmed())
					w.Publish("needed", "0")
					assert.True(t, isWoken(needed))

					w.answer(nil)
					time.Sleep(2 * keepTime)
					assert.Equal(t, map[string]int{"needed": 1, "other": 0}, w.PubSubNumSub("needed", "other"))
					w.Publish("needed", "1")
					assert.True(t, isWoken(needed))
				})
			})
		}
	}
}

// The new connection has confirmed both channels when it is refused one of them.
func TestARenewalThatIsRefusedInPartChangesNothing(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		also := woken(t, w.hub, "also")
		refused := false
		w.answer(func(command string, args []string) string {
			if command == "SUBSCRIBE" && len(args) == 1 {
				refused = true
				return "BUSY Redis is busy running a script"
			}
			return ""
		})
		time.Sleep(keepTime + time.Second)
		synctest.Wait()
		require.True(t, refused)
		for name, s := range map[string]*waiter{"needed": needed, "also": also} {
			require.True(t, s.Confirmed())
			isWoken(s)
			w.Publish(name, "0")
			assert.True(t, isWoken(s))
		}
	})
}

func TestARenewalWaitsUntilTheServerHasRoom(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		w.full.Store(true)
		before := w.dialed.Load()
		time.Sleep(time.Hour)
		assert.True(t, needed.Confirmed())
		assert.LessOrEqual(t, w.dialed.Load()-before, int64(time.Hour/keepTime))
		w.full.Store(false)
		time.Sleep(keepTime + time.Second)
		assert.Equal(t, map[string]int{"needed": 1, "other": 0}, w.PubSubNumSub("needed", "other"))
	})
}

func TestAConnectionThatIsLostDuringItsRenewalIsReplaced(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		w.net.Rule(network.Nth(1, network.Hold, network.Request, "HELLO"))
		time.Sleep(keepTime)
		synctest.Wait()
		w.net.Rule(nil)
		w.net.Cut()
		awaitWake(t, needed)
		time.Sleep(time.Minute)
		assert.True(t, needed.Confirmed())
		assert.Equal(t, map[string]int{"needed": 1, "other": 0}, w.PubSubNumSub("needed", "other"))
	})
}

func TestCloseEndsARenewal(t *testing.T) {
	left(t, func(t *testing.T, w *world, _ *waiter) {
		w.net.Rule(network.Nth(1, network.Hold, network.Request, "HELLO"))
		time.Sleep(keepTime)
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			w.net.Deliver()
		}()
		w.hub.Close()
		synctest.Wait()
		assert.EqualValues(t, 1, w.open.Load(), "the connection of the commands")
	})
}

// So many channels are left that a renewal is due at once. They are bounded, whatever the server says.
func TestACrowdedConnectionThatCannotBeRenewedIsReplaced(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		subs := make([]*waiter, 2000)
		for i := range subs {
			subs[i] = wait(w.hub, fmt.Sprint("many:", i))
		}
		for _, s := range subs {
			awaitWake(t, s)
			s.Close()
		}
		time.Sleep(5*time.Second - 1)
		assert.Len(t, w.PubSubChannels(""), 2+2000)
		refuse := true
		w.answer(func(command string, _ []string) string {
			if command == "SUBSCRIBE" && refuse {
				refuse = false
				return "NOPERM No permissions to access a channel"
			}
			return ""
		})
		began := time.Now()
		awaitWake(t, needed)
		assert.Less(t, time.Since(began), time.Second)
		assert.True(t, needed.Confirmed())
		synctest.Wait()
		assert.Equal(t, []string{"needed"}, w.PubSubChannels(""))
	})
}

// A server may refuse everything at any moment: while it subscribes, while channels are left, while
// a connection ends.
func TestNoRefusalEndsTheProcess(t *testing.T) {
	redistest.Slow(t)
	for _, refusal := range refusals {
		for _, resp2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s resp2=%v", strings.Fields(refusal)[0], resp2), func(t *testing.T) {
				bubble(t, pubsub.Config{}, func(t *testing.T, w *world) {
					opt := w.options()
					opt.AlwaysRESP2 = resp2
					client, err := rueidis.NewClient(opt)
					require.NoError(t, err)
					defer client.Close()
					for _, command := range []string{"SUBSCRIBE", "PING", ""} {
						hub := pubsub.New(pubsub.Config{Client: client, Linger: time.Second})
						needed, other, late := wait(hub, "needed"), wait(hub, "other"), wait(hub, "late")
						awaitWake(t, needed, other, late)
						w.refuse(command, refusal)
						other.Close()
						for range 30 { // two renewals are due
							time.Sleep(700 * time.Millisecond)
							late.Close()
							late = wait(hub, "late")
							wait(hub, "new").Close()
						}
						w.net.Cut()
						time.Sleep(time.Second)
						w.answer(nil)
						needed.Close()
						time.Sleep(time.Minute)
						hub.Close()
						synctest.Wait()
						assert.Empty(t, w.PubSubChannels(""))
					}
				})
			})
		}
	}
}

// An ear records the messages of a subscription with Also.
type ear struct {
	mu   sync.Mutex // guards the fields below
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

func TestAHeardChannelWakesTheOtherWhenItIsConfirmedAgain(t *testing.T) {
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
				w := woken(t, hub, name)
				eventually(t, name+" is counted", func() bool { return hub.Confirmed(name) })
				do(t, outside, "SPUBLISH", name, "0")
				awaitWake(t, w)
			}
			s := hub.ListenPlain("aside", func(message string) { heard <- message })
			awaitWake(t, s)
			require.True(t, s.Confirmed())
			for _, node := range outside.Nodes() {
				do(t, node, "PUBLISH", "aside", "hello")
				assert.Equal(t, "hello", redistest.Await(t, heard))
			}
			for _, name := range channelNames() {
				require.True(t, hub.Confirmed(name), "the other channels are unchanged")
			}
			s.Close()
			eventually(t, "the channel is unsubscribed", func() bool {
				for _, node := range outside.Nodes() {
					if subscribers(t, node, "aside") > 0 {
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
