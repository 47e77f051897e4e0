package rlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// The channels of grants differ between the names, too: a message through the wrong channel
// is ignored.
func TestAGrantThatNamesAnotherLockIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewFairLock(key).Lock(me))
		waiting := w.waiting(p, them)
		ticket := w.queued()[0]
		channel := "rlock_turn:{" + key + "}:" + ticket[:19]
		for _, grant := range []string{ticket, "+" + ticket, "+" + ticket + "   ", "+" + ticket + "   {" + key + "}", "+" + ticket + "   " + key + " ", "?" + ticket + " {" + key + "}"} {
			require.Equal(t, 1, w.Publish(channel, grant))
			assert.True(t, pending(waiting), grant)
		}
		require.NoError(t, holder.NewFairLock(key).Unlock(me))
		require.NoError(t, <-waiting)
		require.NoError(t, p.NewFairLock(key).Unlock(them))
	})
}

// For any two names, the keys, channels and messages of their fair and read-write locks
// differ, except those that Redisson shares.
func FuzzTwoNames(f *testing.F) {
	for _, names := range [][2]string{
		{"x", "{x}"}, {"{x}", "{x}:"}, {"x", "{x}:"}, {"x}", "{x}"}, {"{x", "x"}, {"{x", "{x}"}, {"user:1", "{user:1}"},
		{"x", "x:"}, {"{{x}", "{x}"}, {"{x}rw", "x"}, {"{x}:rw", "{x}"}, {"rlock_queue:{x}", "x"}, {"x}:ushers", "x"},
		{" ", "{ }"}, {"x", "x x"}, {"x}y", "{x}y"}, {"x}y", "{x}y}"},
	} {
		f.Add(names[0], names[1])
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		if one == other || !valid(one) || !valid(other) {
			t.Skip()
		}
		bubbleAlone(t, func(t *testing.T, w *world) {
			clients := [2]*testClient{w.client(), w.client()}
			mine := w.owned(clients, one)
			require.GreaterOrEqual(t, len(mine), 4, "two queues and their channels: %q", mine)
			for thing := range w.owned(clients, other) {
				assert.NotContains(t, mine, thing)
			}
		})
	})
}

func valid(name string) bool { return len(name) > 0 && len(name) <= 64<<10 }

// owned returns the keys and channels that locks of the name use while clients contend,
// without the lock's own key and those that Redisson shares.
func (w *world) owned(clients [2]*testClient, name string) map[string]bool {
	things := make(map[string]bool)
	look := func() {
		for _, key := range w.Keys() {
			if key != name && !strings.Contains(key, ":rwlock_timeout:") {
				things["key "+key] = true
			}
		}
		for _, channel := range lockChannels(w.Miniredis) {
			if !strings.HasPrefix(channel, "redisson_") {
				things["channel "+channel] = true
			}
		}
	}
	me, them := w.caller(), w.caller()
	spy := w.NewSubscriber()
	spy.Psubscribe("rlock_*")
	defer func() { spy.Punsubscribe("rlock_*"); spy.Close() }()
	messages := make(chan string, 3) // a fourth message would hang
	go func() {
		for m := range spy.Pmessages() {
			messages <- m.Message
		}
	}()
	for i, p := range clients { // each client is granted the lock once
		fair, waits := clients[1-i].NewFairLock(name), p.NewFairLock(name)
		require.NoError(w.t, fair.Lock(me))
		waiting := start(func() error { return waits.Lock(them) })
		require.True(w.t, pending(waiting))
		look()
		require.NoError(w.t, fair.Unlock(me))
		require.NoError(w.t, <-waiting)
		require.NoError(w.t, waits.Unlock(them))
	}
	for range clients {
		words := strings.SplitN(<-messages, " ", 4)
		require.Len(w.t, words, 4)
		assert.Len(w.t, strings.Split(words[0], ":"), 2)
		assert.Equal(w.t, name, words[3], "a grant names its lock")
	}

	reading, writing := clients[0].NewReadWriteLock(name).Read(), clients[1].NewReadWriteLock(name).Write()
	require.NoError(w.t, reading.Lock(me))
	waiting := start(func() error { return writing.Lock(them) })
	require.True(w.t, pending(waiting))
	look()
	require.NoError(w.t, reading.Unlock(me))
	require.NoError(w.t, <-waiting)
	require.NoError(w.t, writing.Unlock(them))
	time.Sleep(time.Minute) // until the subscriptions have ended
	require.Empty(w.t, w.Keys())
	require.Empty(w.t, lockChannels(w.Miniredis))
	return things
}
