package rlock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// section is the length of the sections here: long enough for the mirror of a hand-off to be
// answered before the next one.
const section = 2 * time.Millisecond

// Turns lists the holders of the lock, in order. Protected by the lock.
type turns struct {
	order []string
	wg    sync.WaitGroup
}

// join starts a new owner that waits for the lock, has it for a section and unlocks it. It
// returns when the owner is in the queue.
func (r *turns) join(w *world, p *testClient, who string) {
	lock, me := p.NewLock(key), w.caller()
	r.wg.Go(func() {
		if !assert.NoError(w.t, lock.Lock(me)) {
			return
		}
		r.order = append(r.order, who)
		time.Sleep(section)
		assert.NoError(w.t, lock.Unlock(me))
	})
	synctest.Wait()
}

func handoff(limit int, duration time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.HandoffLimit, c.HandoffTime = limit, duration }
}

func TestInsideAProcessTheLockIsHandedOffFirstInFirstOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		require.NoError(t, p.NewLock(key).Lock(me))
		var r turns
		var want []string
		for i := range 50 {
			who := string(rune('A' + i))
			want = append(want, who)
			r.join(w, p, who)
		}
		require.NoError(t, p.NewLock(key).Unlock(me))
		r.wg.Wait()
		assert.Equal(t, want, r.order)
		assert.Len(t, p.acquires(), 2, "one tenure takes an EVALSHA and an EVAL")
		assert.Len(t, p.releases(), 2)
	})
}

func TestWithoutOthersATenureGoesOnWithoutEnd(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(handoff(1, time.Millisecond))
		var wg sync.WaitGroup
		for range 3 {
			lock, me := p.NewLock(key), w.caller()
			wg.Go(func() {
				for range 1000 {
					assert.NoError(t, lock.Lock(me))
					time.Sleep(section)
					assert.NoError(t, lock.Unlock(me))
				}
			})
		}
		wg.Wait()
		assert.Len(t, p.releases(), 2, "one release at the end takes an EVALSHA and an EVAL")
		assert.Empty(t, w.Keys())
	})
}

// In contend one client holds the lock with ten more waiters, and another client waits too;
// it returns the order of the holders.
func contend(w *world, here, there *testClient) []string {
	first := w.caller()
	require.NoError(w.t, here.NewLock(key).Lock(first))
	var r turns
	for range 10 {
		r.join(w, here, "here")
	}
	r.join(w, there, "there")
	require.NoError(w.t, here.NewLock(key).Unlock(first))
	r.wg.Wait()
	assert.Empty(w.t, w.Keys())
	return r.order
}

// The lock is handed off once before the client knows of the other one (the mirror of a
// hand-off tells it), and then as the config says.

func TestOnceAnotherClientWaitsTheLockIsHandedOffSoManyTimes(t *testing.T) {
	for limit, atMost := range map[int]int{
		-1: 1, // not handed off at all
		1:  2,
		4:  5,
		0:  10, // 16 by default, more than there are waiters
	} {
		bubbleAlone(t, func(t *testing.T, w *world) {
			order := contend(w, w.client(handoff(limit, time.Hour)), w.client())
			assert.LessOrEqual(t, slices.Index(order, "there"), atMost, "limit %d: %v", limit, order)
		})
	}
}

func TestOnceAnotherClientWaitsTheLockIsHandedOffForSoLong(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		order := contend(w, w.client(handoff(1000, 5*section)), w.client())
		assert.LessOrEqual(t, slices.Index(order, "there"), 6, order)
	})
}

func TestClientsThatKeepWaitingTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := w.client()
		require.NoError(t, first.NewLock(key).Lock(w.caller()))
		var r turns
		const clients, each = 4, 12
		for i := range clients {
			p := w.client(handoff(-1, 0))
			for range each {
				r.join(w, p, string(rune('A'+i)))
			}
		}
		_, err := first.NewLock(key).ForceUnlock(w.caller())
		require.NoError(t, err)
		r.wg.Wait()

		// A tenure has two sections here: the first, and a hand-off before the client knows
		// of the others. The first round sets the order; after it no client has a second
		// tenure before every other client has had one.
		tenures := slices.Compact(r.order)
		for i := clients; i < len(tenures); i++ {
			require.Equal(t, tenures[i-clients], tenures[i], "%v", tenures)
		}
	})
}

func TestClientsThatContendAllMakeProgress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		var shares [3]int // protected by the lock
		end := time.Now().Add(4 * time.Second)
		for i := range shares {
			p := w.client()
			for range 4 {
				lock, me := p.NewLock(key), w.caller()
				wg.Go(func() {
					for time.Now().Before(end) {
						assert.NoError(t, lock.Lock(me))
						shares[i]++
						time.Sleep(section)
						assert.NoError(t, lock.Unlock(me))
					}
				})
			}
		}
		wg.Wait()
		total := shares[0] + shares[1] + shares[2]
		assert.Greater(t, total, 1200, "there is time for 2000 sections")
		for _, share := range shares {
			assert.Greater(t, share, total/10, shares)
		}
		assert.Empty(t, w.Keys())
	})
}

// A waiting client of Redisson has subscribed to the channel, and does nothing else that
// Redis can see.
func TestAForeignSubscriberCountsAsAnotherClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(handoff(2, time.Hour))
		foreigner := w.outsider()
		ctx, leave := context.WithCancel(w.ctx)
		left := start(func() error {
			return foreigner.Receive(ctx, foreigner.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
		})
		synctest.Wait()
		require.Equal(t, 1, w.PubSubNumSub(channel)[channel])

		passOn := func() {
			first := w.caller()
			require.NoError(t, p.NewLock(key).Lock(first))
			var r turns
			for range 12 {
				r.join(w, p, "")
			}
			require.NoError(t, p.NewLock(key).Unlock(first))
			r.wg.Wait()
			require.Len(t, r.order, 12)
		}
		passOn()
		assert.GreaterOrEqual(t, len(p.releases()), 4, "the lock was not released for the other client")

		leave()
		require.Error(t, <-left)
		foreigner.Close()
		time.Sleep(10 * time.Second) // the client's own subscription has lingered
		before := len(p.releases())
		passOn()
		assert.Len(t, p.releases(), before+1, "no other client is left, and the lock is still released in between")
	})
}

func TestOneAttemptDoesNotBarge(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, other.NewLock(key).Lock(them))
		waits := start(func() error { return lock.Lock(me) })
		require.True(t, pending(waits))
		other.net.Refuse() // its release does not arrive: the lock is free when its lease has ended
		time.Sleep(29900 * time.Millisecond)
		w.Del(key) // without a message to the waiter
		sent := len(p.acquires())
		ok, err := lock.TryLock(w.caller())
		require.NoError(t, err)
		assert.False(t, ok, "TryLock must not pass a waiter of this process")
		assert.Len(t, p.acquires(), sent, "no command")
		require.NoError(t, <-waits)

		ok, err = lock.TryLock(w.caller())
		require.NoError(t, err)
		assert.False(t, ok)
		ok, err = lock.TryLock(me)
		require.NoError(t, err)
		assert.True(t, ok, "the lock's owner may nest")
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
	})
}
