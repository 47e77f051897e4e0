package rlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

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

// A first waiter asks, subscribes and asks again. While the channel lingers, a waiter is
// subscribed before it asks.
func TestAWaiterWhoseChannelIsSubscribedAsksOnceBeforeItSleeps(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, me := w.client(), w.client(), w.caller()
		for _, asks := range []int{2, 1, 1} { // an acquire and a join, then a join
			require.NoError(t, here.NewLock(key).Lock(me))
			before := evalshas(there.acquires())
			waiter := start(func() error { return there.NewLock(key).Lock(me) })
			require.True(t, pending(waiter))
			assert.Equal(t, asks, evalshas(there.acquires())-before)
			require.NoError(t, here.NewLock(key).Unlock(me))
			within(t, 0, 0, func() { require.NoError(t, <-waiter) })
			require.NoError(t, there.NewLock(key).Unlock(me))
			time.Sleep(time.Second)
		}
	})
}

// The message of a grant and the answer to the join come over different connections, and the
// message may be first.
func TestAGrantThatArrivesBeforeTheAnswerToTheJoinNeedsNoLook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, here.NewLock(key).Lock(me))
		waiter := start(func() error { return there.NewLock(key).Lock(them) })
		require.True(t, pending(waiter))
		require.NoError(t, here.NewLock(key).Unlock(me))
		require.NoError(t, <-waiter)
		require.NoError(t, there.NewLock(key).Unlock(them)) // its channel stays subscribed

		require.NoError(t, here.NewLock(key).Lock(me))
		before := len(there.net.Sent("EVALSHA"))
		there.net.Rule(network.All(network.Hold, network.Reply, "EVALSHA"))
		waiter = start(func() error { return there.NewLock(key).Lock(them) })
		require.True(t, pending(waiter))
		require.NoError(t, here.NewLock(key).Unlock(me))
		require.True(t, pending(waiter), "the grant alone does not answer the join")
		require.Contains(t, w.fields(key)[0], there.ID(), "the waiter holds the lock")
		there.net.Heal()
		within(t, 0, 0, func() { require.NoError(t, <-waiter) })
		assert.Len(t, there.net.Sent("EVALSHA"), before+1, "the join")
		require.NoError(t, there.NewLock(key).Unlock(them))
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

// A waiter learns of its grant from the answer to a look, and unlocks before the message
// comes. The message may be about a command that has run since then: so a release follows that
// of Unlock, and none overtakes it, by which Unlock would call the lock lost.
func TestAGrantThatArrivesDuringUnlockIsReleasedAfterThat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, p, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, holder.NewLock(key).Lock(me))
		waiter := start(func() error { return p.NewLock(key).Lock(them) })
		require.True(t, pending(waiter))
		require.NoError(t, holder.NewLock(key).Unlock(me))
		require.NoError(t, <-waiter)

		ticket := w.fields(key)[0]
		p.net.SetRoundTrip(20 * time.Millisecond)
		before := len(p.net.Sent("EVALSHA"))
		unlocked := start(func() error { return p.NewLock(key).Unlock(them) })
		require.True(t, pending(unlocked))
		channel := "rlock_turn:{" + key + "}:" + ticket[:19]
		require.Equal(t, 1, w.Publish(channel, "+"+ticket+"   "+key))
		require.NoError(t, <-unlocked)
		assert.Len(t, p.net.Sent("EVALSHA"), before+1)
		time.Sleep(time.Second)
		assert.Len(t, p.net.Sent("EVALSHA"), before+2)
	})
}
