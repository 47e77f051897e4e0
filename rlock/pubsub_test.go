package rlock_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// refusePubSub makes the server refuse subscriptions.
func refusePubSub(command string, _ ...string) string {
	if command == "subscribe" {
		return "NOPERM User default has no permissions to run the 'subscribe' command"
	}
	return ""
}

func TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, them := w.client(), w.client(), w.caller()
		w.answer(refusePubSub)
		names := []string{"one", "two", "three"}
		var results []<-chan error
		owners := []context.Context{w.caller(), w.caller(), w.caller()}
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Lock(them))
			results = append(results, start(func() error { return p.NewLock(name).Lock(owners[i]) }))
		}
		time.Sleep(time.Second)
		asked := len(p.acquires())
		time.Sleep(time.Minute)
		polls := len(p.acquires()) - asked
		assert.Less(t, polls, 3*1000, "at intervals of 64 to 128 ms")
		assert.Greater(t, polls, 3*400)
		assert.Equal(t, 1, p.logged("refuses a subscription"))
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Unlock(them))
			within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-results[i]) })
			require.NoError(t, p.NewLock(name).Unlock(owners[i]))
		}
		assert.Empty(t, w.Keys())
	})
}

func TestWherePubSubIsRefusedAllWaitersGetTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var r turns
		first := w.caller()
		here, there := w.client(), w.client()
		w.answer(refusePubSub)
		require.NoError(t, here.NewLock(key).Lock(first))
		for range 20 {
			r.join(w, here, "here")
			r.join(w, there, "there")
		}
		require.NoError(t, here.NewLock(key).Unlock(first))
		r.wg.Wait()
		assert.Len(t, r.order, 40)
		assert.Empty(t, w.Keys())
	})
}

func TestWhereNoMessageArrivesAWaiterLooksWhenTheHoldersLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me := w.client(), w.client(), w.caller()
		p.net.Rule(network.Deaf)
		begin := time.Now()
		require.NoError(t, other.NewLock(key).LockFor(w.caller(), 3*time.Second))
		other.net.Refuse()
		require.NoError(t, p.NewLock(key).Lock(me))
		assert.LessOrEqual(t, time.Since(begin), 3*time.Second+21*time.Millisecond)
		assert.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
		assert.Less(t, len(p.acquires()), 8, "the waiter polled")
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

func TestWhereNoMessageArrivesAWaiterLooksAfterTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		p.net.Rule(network.Deaf)
		require.NoError(t, other.NewLock(key).LockFor(them, time.Hour))
		result := start(func() error { return p.NewLock(key).Lock(me) })
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(key).Unlock(them))
		within(t, 0, 5*time.Second, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

// The connection of the subscription ends before the message. The renewed subscription makes
// the waiter look, long before the fallback.
func TestAMessageThatIsLostWithItsConnectionIsMadeGoodByTheNextConfirmation(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, other.NewLock(key).Lock(them))
		result := start(func() error { return p.NewLock(key).Lock(me) })
		require.True(t, pending(result))
		p.net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Push && f.Is("message") {
				return network.Cut
			}
			return network.Pass
		})
		require.NoError(t, other.NewLock(key).Unlock(them))
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

// The same with an access rule of a real server.
func TestAUserThatMayNotSubscribeStillGetsTheLock(t *testing.T) {
	server, admin := standalone(t)
	ctx := context.Background()
	require.NoError(t, admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-subscribe").Build()).Error())
	option := server.Options()
	option.Username, option.Password = "limited", "secret"
	p, other := dial(t, option), dial(t, server.Options())
	require.NoError(t, other.NewLock(key).Lock(ctx))
	me := rlock.WithOwner(ctx, rlock.NewOwner())
	result := start(func() error { return p.NewLock(key).Lock(me) })
	require.NoError(t, other.NewLock(key).Unlock(ctx))
	require.NoError(t, <-result)
	require.NoError(t, p.NewLock(key).Unlock(me))
}

// A client that may not count subscribers assumes that every waiter is subscribed.
func TestAUserThatMayNotCountSubscribersReleasesForOthers(t *testing.T) {
	server, admin := standalone(t)
	ctx := context.Background()
	require.NoError(t, admin.Do(ctx, admin.B().Arbitrary("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-pubsub").Build()).Error())
	option := server.Options()
	option.Username, option.Password = "limited", "secret"
	limited, other := dial(t, option), dial(t, server.Options())
	for range 10 {
		for _, pair := range [][2]*rlock.Client{{limited, other}, {other, limited}} {
			require.NoError(t, pair[0].NewLock(key).Lock(ctx))
			waiter := start(func() error { return pair[1].NewLock(key).Do(ctx, nothing) })
			at(t, server).awaitWaiters(1, key)
			require.NoError(t, pair[0].NewLock(key).Unlock(ctx))
			require.NoError(t, <-waiter)
		}
	}
}

// ownChannel is the channel of messages about the client's tenures.
func (p *testClient) ownChannel() string { return ownChannels + p.ID() }

func TestAClientSubscribesToItsOwnChannelOnceWithItsFirstLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		time.Sleep(time.Minute)
		require.Empty(t, w.PubSubChannels("*"), "the client has held nothing yet")
		for _, name := range []string{"one", "two"} {
			require.NoError(t, p.NewLock(name).Lock(me))
			synctest.Wait()
			require.Equal(t, []string{p.ownChannel()}, w.PubSubChannels("*"))
			require.NoError(t, p.NewLock(name).Unlock(me))
		}
		time.Sleep(time.Hour)
		assert.Len(t, p.net.Sent("SUBSCRIBE"), 1)
		assert.Equal(t, []string{p.ownChannel()}, w.PubSubChannels("*"), "the subscription lasts until Close")
		require.NoError(t, p.Close())
		synctest.Wait()
		assert.Empty(t, w.PubSubChannels("*"))
	})
}

func TestWithoutAClientChannelNothingIsSubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(func(c *rlock.Config) { c.NoClientChannel = true }), w.caller()
		require.NoError(t, p.NewLock(key).Lock(me))
		time.Sleep(time.Minute)
		require.NoError(t, p.NewLock(key).Unlock(me))
		assert.Empty(t, p.net.Sent("SUBSCRIBE"))
	})
}

// A server that refuses the channel, or is silent about it, makes no difference to a lock,
// and the log reports no waiters that poll.
func TestNoLockDependsOnTheClientsOwnChannel(t *testing.T) {
	for name, fault := range map[string]func(w *world, p *testClient){
		"refused": func(w *world, _ *testClient) { w.answer(refusePubSub) },
		"silent":  func(_ *world, p *testClient) { p.net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				fault(w, p)
				within(t, 0, 0, func() { require.NoError(t, p.NewLock(key).Lock(me)) })
				time.Sleep(time.Minute)
				within(t, 0, 0, func() { require.NoError(t, p.NewLock(key).Unlock(me)) })
				require.NoError(t, p.Close())
				assert.Zero(t, p.logged("level=WARN"))
			})
		})
	}
}

// The holder's client gets a message, and asks Redis: two round trips after the call.
func TestTheHoldersClientIsNotifiedOfAnUnlockByForce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		holder, other := w.process(), w.process()
		hold, err := holder.lock(key).Acquire(w.ctx)
		require.NoError(t, err)
		synctest.Wait() // until the client has subscribed
		within(t, 0, 100*time.Millisecond, func() {
			freed, err := other.lock(key).ForceUnlock(w.ctx)
			require.NoError(t, err)
			require.True(t, freed)
			<-hold.Context().Done()
		})
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		again, err := other.lock(key).Acquire(w.ctx, rlock.WithWait(0))
		require.NoError(t, err)
		require.NoError(t, again.Release(w.ctx))
	})
}

func TestALossByForceIsReportedWithinTwoRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const roundTrip = 40 * time.Millisecond
		holder, other := w.client(), w.client()
		hold, err := holder.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, other.NewLock("another").Do(w.ctx, nothing))
		time.Sleep(11 * time.Second) // it was renewed: the server knows all scripts
		holder.net.SetRoundTrip(roundTrip)
		other.net.SetRoundTrip(roundTrip)
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			_, _ = other.NewLock(key).ForceUnlock(w.ctx)
		}()
		within(t, 3*roundTrip, 3*roundTrip+2*time.Millisecond, func() { <-hold.Context().Done() }) // the first round trip is a query for the holder
		<-looked
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
	})
}

// Any client may publish there. Only Redis decides.
func TestNoMessageOnAClientsChannelIsBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		owner := w.fields(key)[0]
		another := owner[:25] + "ffffffff" + owner[33:]
		asked := func() int { return len(p.net.Sent("EVALSHA")) }
		before := asked()
		for _, garbage := range []string{
			"", " ", "f", "f ", "f  " + key, "f " + owner, "f " + owner + " ", "f " + owner + " another", "f " + another + " " + key,
			"f " + owner[:30] + " " + key, "x " + owner + " " + key, "f 4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7 " + key, "\x00", owner + " " + key,
		} {
			require.Equal(t, 1, w.Publish(p.ownChannel(), garbage))
		}
		time.Sleep(time.Second)
		assert.Equal(t, before, asked(), "no message is about a lock of this client")
		require.NoError(t, context.Cause(hold.Context()))

		require.Equal(t, 1, w.Publish(p.ownChannel(), "f "+owner+" "+key))
		time.Sleep(time.Second)
		assert.Equal(t, before+1, asked(), "it asks")
		require.NoError(t, context.Cause(hold.Context()), "Redis still shows the lock")
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestAFloodOfMessagesAsksAtMostOnceAMillisecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		message, before := "f "+w.fields(key)[0]+" "+key, len(p.net.Sent("EVALSHA"))
		for range 1000 {
			w.Publish(p.ownChannel(), message)
		}
		time.Sleep(10 * time.Millisecond)
		assert.LessOrEqual(t, len(p.net.Sent("EVALSHA"))-before, 11)
		require.NoError(t, hold.Release(w.ctx))
	})
}

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

func TestAWaiterIsWokenByTheMessageOfTheRelease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) { s.wakes(s.client(), s.client(), s.family()) })
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

func TestAReleaseTakesNoTimeToReachAWaiter(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		here, there := s.lock(), s.lock()
		require.NoError(t, here.Lock(context.Background()))
		waiter := background(func() error {
			if err := there.Lock(context.Background()); err != nil {
				return err
			}
			return there.Unlock(context.Background())
		})
		time.Sleep(time.Second) // in virtual time: the waiter sleeps by now
		released := time.Now()
		require.NoError(t, here.Unlock(context.Background()))
		require.NoError(t, <-waiter)
		assert.Zero(t, time.Since(released))
	})
}

func TestEveryWaiterOfEveryClientGetsTheLock(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		const clients, waiters = 3, 4
		holder := s.lock()
		require.NoError(t, holder.Lock(s.ctx))
		var served int // protected by the lock under test
		var all sync.WaitGroup
		for range clients {
			lock := s.lock()
			for range waiters {
				ctx, queued := queueing(s.ctx)
				all.Go(func() {
					if assert.NoError(t, lock.Lock(ctx)) {
						served++
						assert.NoError(t, lock.Unlock(ctx))
					}
				})
				<-queued
			}
		}
		require.NoError(t, holder.Unlock(s.ctx))
		all.Wait()
		assert.Equal(t, clients*waiters, served)
	})
}

// Redisson: testAutoExpire.
func TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		lock := s.lock()
		s.set(key, "a-process-that-died:1", time.Hour)
		assert.False(t, s.isFree(lock))
		s.number("PEXPIRE", key, "100")
		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

// The keys, channels and messages that Redisson does not share belong to one name alone. "x"
// and "{x}" share a hash tag and Redisson's channels, and nothing else.

func TestAReleaseGrantsNoLockOfAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, other, third := w.client(), w.client(), w.client()
		a, b, c := w.caller(), w.caller(), w.caller()
		require.NoError(t, one.NewFairLock("x").Lock(a))
		require.NoError(t, third.NewFairLock("{x}").Lock(c))
		waiting := start(func() error { return other.NewFairLock("{x}").Lock(b) })
		require.True(t, pending(waiting))

		require.NoError(t, one.NewFairLock("x").Unlock(a))
		require.True(t, pending(waiting), "{x} is held")
		assert.False(t, w.Exists("x"), "x has no waiter")

		require.NoError(t, third.NewFairLock("{x}").Unlock(c))
		within(t, 0, 0, func() { require.NoError(t, <-waiting) })
		require.NoError(t, other.NewFairLock("{x}").Unlock(b))
		assert.Empty(t, w.Keys())
	})
}

func TestAWriterHoldsBackNoReadersOfAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing := w.client().NewReadWriteLock("x").Read(), w.client().NewReadWriteLock("x").Write()
		me, writer := w.caller(), w.caller()
		require.NoError(t, reading.Lock(me))
		waiting := start(func() error { return writing.Lock(writer) })
		require.True(t, pending(waiting))
		assert.True(t, w.try(w.client().NewReadWriteLock("{x}").Read()))
		assert.False(t, w.try(w.client().NewReadWriteLock("x").Read()))
		require.NoError(t, reading.Unlock(me))
		require.NoError(t, <-waiting)
		require.NoError(t, writing.Unlock(writer))
	})
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
