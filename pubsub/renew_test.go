package pubsub_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
)

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
		time.Sleep(time.Hour)
		assert.Len(t, w.sent("SUBSCRIBE"), sent)
		other.Close()
		time.Sleep(time.Hour)
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

// manyLeft is left with so many channels that were left that a renewal is due at once.
func manyLeft(t *testing.T, w *world) {
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
}

func TestManyChannelsThatAreLeftEndSoon(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		manyLeft(t, w)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"needed"}, w.PubSubChannels(""))
		assert.True(t, needed.Confirmed())
	})
}

// The channels left on a connection are bounded, whatever the server says.
func TestACrowdedConnectionThatCannotBeRenewedIsReplaced(t *testing.T) {
	left(t, func(t *testing.T, w *world, needed *waiter) {
		manyLeft(t, w)
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
					for _, command := range []string{"SUBSCRIBE", "UNSUBSCRIBE", "PING", ""} {
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
