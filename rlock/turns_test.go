package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// Turns with a client that is not ours. internal/redisson has the real one.

const foreignOwner = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"

// A foreigner contends for the lock as a thread of Redisson does: it frees it after
// each section, and waits for a message.
type foreigner struct {
	*world
	channel  string
	holds    []string // the lock's hash while it has it
	redis    rueidis.Client
	messages chan struct{}
	sections int
}

func (w *world) foreigner(channel string, holds ...string) *foreigner {
	f := &foreigner{world: w, channel: channel, holds: holds, redis: w.outsider(), messages: make(chan struct{}, 1)}
	ctx, leave := context.WithCancel(w.ctx)
	subscriber := w.outsider()
	left := start(func() error {
		return subscriber.Receive(ctx, subscriber.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {
			select {
			case f.messages <- struct{}{}:
			default:
			}
		})
	})
	w.t.Cleanup(func() { leave(); <-left })
	synctest.Wait()
	return f
}

func (f *foreigner) eval(script string, args ...string) rueidis.RedisResult {
	return f.redis.Do(f.ctx, f.redis.B().Eval().Script(script).Numkeys(1).Key(key).Arg(args...).Build())
}

// contend takes the lock again and again until then. It tries at a message, late by
// what lateness returns.
func (f *foreigner) contend(until time.Time, lateness func() time.Duration) {
	for time.Now().Before(until) {
		got, err := f.eval(`
			if redis.call('exists', KEYS[1]) == 1 then
				return 0
			end
			redis.call('hset', KEYS[1], unpack(ARGV))
			return redis.call('pexpire', KEYS[1], 30000)`, f.holds...).AsInt64()
		if !assert.NoError(f.t, err) {
			return
		}
		if got == 1 {
			time.Sleep(section)
			f.sections++
			assert.NoError(f.t, f.eval(`redis.call('del', KEYS[1]); return redis.call('publish', ARGV[1], '0')`, f.channel).Error())
		}
		select {
		case <-f.messages:
			time.Sleep(lateness())
		case <-time.After(time.Until(until)):
		}
	}
}

// crowd has four goroutines of the client take the lock again and again until
// then, and returns how many sections they have when all is done.
func (p *testClient) crowd(w *world, until time.Time) (sections func() int) {
	return p.callers(4, w, until)
}

// callers is crowd with so many goroutines.
func (p *testClient) callers(goroutines int, w *world, until time.Time) (sections func() int) {
	var all sync.WaitGroup
	n := 0 // the lock protects it
	for range goroutines {
		lock, me := p.NewLock(key), w.caller()
		all.Go(func() {
			for time.Now().Before(until) {
				assert.NoError(w.t, lock.Lock(me))
				time.Sleep(section)
				n++
				assert.NoError(w.t, lock.Unlock(me))
			}
		})
	}
	return func() int {
		all.Wait()
		return n
	}
}

// punctual is the shortest time in which the events of one moment come before.
func punctual() time.Duration { return time.Microsecond }

func TestAClientThatPassesNothingOnHasItsShare(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		end := time.Now().Add(4 * time.Second)
		f := w.foreigner(channel, foreignOwner, "1")
		ours := w.client().crowd(w, end)
		f.contend(end, punctual)
		t.Logf("sections: theirs %d, ours %d", f.sections, ours())
		assert.Greater(t, 4*f.sections, f.sections+ours())
		assert.Greater(t, 4*ours(), f.sections+ours())
	})
}

func TestAClientThatIsLateNowAndThenIsLetPassAgain(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		end := time.Now().Add(4 * time.Second)
		f := w.foreigner(channel, foreignOwner, "1")
		ours := w.client().crowd(w, end)
		turn := 0
		f.contend(end, func() time.Duration {
			if turn++; turn%51 == 0 {
				return 3 * time.Millisecond // longer than the head waits for those that it lets pass
			}
			return time.Millisecond // behind the head, if that lets no other pass
		})
		t.Logf("sections: theirs %d, ours %d", f.sections, ours())
		assert.Greater(t, 4*f.sections, f.sections+ours())
	})
}

func TestOthersThatNeverComeCostLittle(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		w.foreigner(channel, foreignOwner, "1") // listens, and does not contend
		began := time.Now()
		end := began.Add(4 * time.Second)
		ours := w.client().crowd(w, end)()
		lost := time.Since(began) - time.Duration(ours)*section
		t.Logf("%d sections, %v lost", ours, lost)
		assert.Less(t, lost, 350*time.Millisecond, "turns of 10, 20, 40, 80 and 140 ms, then a seventeenth of the time")
		require.Positive(t, ours)
	})
}

// The release of each client finds one ticket, that of the other: a turn behind it would stand alone
// when that is granted the lock.
func TestASubscriberHasItsShareBesideTwoClientsThatPassTheLockToOneAnother(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		end := time.Now().Add(4 * time.Second)
		f := w.foreigner(channel, foreignOwner, "1")
		here, there := w.client().callers(1, w, end), w.client().callers(1, w, end)
		time.Sleep(20 * time.Millisecond)
		f.contend(end, punctual)
		ours := here() + there()
		t.Logf("sections: theirs %d, ours %d", f.sections, ours)
		assert.Greater(t, 4*f.sections, f.sections+ours)
		assert.Greater(t, 4*ours, f.sections+ours)
	})
}

// A section here takes each of the clients as long as one there, so each has one in turn.
func TestASubscriberHasNoMoreThanItsShareBesideManyClients(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		end := time.Now().Add(2 * time.Second)
		f := w.foreigner(channel, foreignOwner, "1")
		var crowd []func() int
		for range 8 {
			crowd = append(crowd, w.client().callers(1, w, end))
		}
		time.Sleep(20 * time.Millisecond)
		f.contend(end, punctual)
		ours := 0
		for _, sections := range crowd {
			ours += sections()
		}
		t.Logf("sections: theirs %d, ours %d", f.sections, ours)
		assert.Less(t, 8*f.sections, 2*ours, "less than two fair parts")
		assert.Greater(t, 16*f.sections, ours, "more than half a fair part")
	})
}

// The queue is not kept for as long as such a section.
func TestASubscriberHasItsTurnBetweenSectionsOfMinutes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f := w.foreigner(channel, foreignOwner, "1")
		here, there, me := w.client().NewLock(key), w.client().NewLock(key), w.caller()
		require.NoError(t, here.Lock(me))
		for range 3 {
			time.Sleep(90 * time.Second)
			waiter := start(func() error { return there.Lock(me) })
			w.eventually(func() bool { return len(w.queued()) > 0 }, "it queues")
			for len(f.messages) > 0 {
				<-f.messages
			}
			require.NoError(t, here.Unlock(me))
			select {
			case <-f.messages:
			case <-time.After(time.Second):
				require.Fail(t, "the subscriber is not told that the lock is free")
			}
			f.take()
			f.free()
			require.NoError(t, <-waiter)
			here, there = there, here
		}
		require.NoError(t, here.Unlock(me))
	})
}

// take takes the lock for the foreigner as soon as a try finds it free, with a millisecond
// between two tries, and returns how long that took.
func (f *foreigner) take() time.Duration {
	asked := time.Now()
	for {
		got, err := f.eval(`
			if redis.call('exists', KEYS[1]) == 1 then
				return 0
			end
			redis.call('hset', KEYS[1], unpack(ARGV))
			return redis.call('pexpire', KEYS[1], 30000)`, f.holds...).AsInt64()
		require.NoError(f.t, err)
		if got == 1 {
			return time.Since(asked)
		}
		time.Sleep(time.Millisecond)
	}
}

// guest is a foreigner that Redis cannot count, since it does not listen.
func (w *world) guest() *foreigner {
	return &foreigner{world: w, channel: channel, holds: []string{foreignOwner, "1"}, redis: w.outsider()}
}

func (f *foreigner) free() {
	require.NoError(f.t, f.eval(`redis.call('del', KEYS[1]); return redis.call('publish', ARGV[1], '0')`, f.channel).Error())
}

func TestAGuestThatOnlyPollsHasATurnEveryFewSeconds(t *testing.T) {
	manyCommands(t)
	for _, c := range []struct {
		clients int
		met     bool
	}{{1, true}, {3, false}} {
		t.Run(fmt.Sprintf("%d clients, met before %v", c.clients, c.met), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				f := w.guest()
				if c.met {
					f.take()
				}
				end := time.Now().Add(5 * time.Second)
				var crowds []func() int
				for range c.clients {
					crowds = append(crowds, w.client(func(config *rlock.Config) { config.RedissonPolls = rlock.RedissonPollsAlways }).crowd(w, end))
				}
				time.Sleep(10 * time.Millisecond)
				if c.met {
					f.free()
				}
				for time.Now().Before(end) {
					assert.Less(t, f.take(), 3*time.Second)
					f.sections++
					time.Sleep(section)
					f.free()
				}
				for _, ours := range crowds {
					assert.Positive(t, ours())
				}
				assert.Greater(t, f.sections, 1)
			})
		})
	}
}

// Redisson's spin lock publishes nothing when it is released, and is taken again at once.
func TestAGuestThatPublishesNothingDoesNotKeepTheLock(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		f := w.guest()
		f.take()
		end := time.Now().Add(6 * time.Second)
		ours := w.client().crowd(w, end)
		for time.Now().Before(end) {
			time.Sleep(section)
			w.Del(key)
			time.Sleep(section / 4)
			f.take()
			f.sections++
		}
		f.free()
		t.Logf("sections: theirs %d, ours %d", f.sections, ours())
		assert.Greater(t, ours(), 300)
		assert.Greater(t, f.sections, 10)
	})
}

// The first ticket listens for the guest's release. When it leaves, the next one must.
func TestTheNextInLineHearsTheGuestWhenTheFirstHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f := w.guest()
		f.take()
		ctx, leave := context.WithCancel(w.caller())
		first, next, them := w.client(), w.client(), w.caller()
		leaves := start(func() error { return first.NewLock(key).Lock(ctx) })
		w.eventually(func() bool { return len(w.queued()) == 1 }, "it queues")
		waits := start(func() error { return next.NewLock(key).Lock(them) })
		w.eventually(func() bool { return len(w.queued()) == 2 }, "it queues")
		time.Sleep(10*time.Second + 500*time.Millisecond) // the next one looks every two seconds
		leave()
		require.ErrorIs(t, <-leaves, context.Canceled)
		require.True(t, pending(waits))
		within(t, 0, 100*time.Millisecond, func() {
			f.free()
			require.NoError(t, <-waits)
		})
		require.NoError(t, next.NewLock(key).Unlock(them))
	})
}

func TestAWaiterLooksAgainIfItWasToldWhileItLooked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f, p := w.guest(), w.client()
		f.take()
		lock, me := p.NewLock(key), w.caller()
		waiter := start(func() error { return lock.Lock(me) })
		time.Sleep(10 * time.Second)
		p.net.Rule(network.Nth(1, network.Hold, network.Reply, "EVALSHA"))
		time.Sleep(2100 * time.Millisecond) // a look is in flight
		f.free()
		time.Sleep(time.Millisecond)
		sent := len(p.net.Sent("EVALSHA"))
		p.net.Rule(nil)
		p.net.Deliver()
		synctest.Wait()
		assert.Greater(t, len(p.net.Sent("EVALSHA")), sent, "at once")
		require.NoError(t, <-waiter)
		require.NoError(t, lock.Unlock(me))
	})
}

// Redisson's writer shows that it waits only by listening.
func TestAWriterOfRedissonIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		end := time.Now().Add(4 * time.Second)
		f := w.foreigner(rwChannel, "mode", "write", foreignOwner+":write", "1")
		rwClients := []rwClient{w.rwClient(), w.rwClient()}
		reading := readWithoutEnd(w, rwClients, 3, [2]time.Duration{7 * time.Millisecond, 3 * time.Millisecond}, 5*time.Millisecond, end)
		f.contend(end, punctual)
		reads := reading()
		t.Logf("%d writes, reads %v", f.sections, reads)
		assert.Greater(t, f.sections, 40)
		for _, n := range reads {
			assert.Greater(t, n, 40)
		}
	})
}

// Foreign clients that cannot be counted may take the lock in their turn, and the first ticket
// looks when that is over. If it leaves before, the next one looks.
func TestTheNextTicketTakesTheLockAfterATurnInWhichTheFirstHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		polls := func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways }
		holder, next, last, me := w.client(polls), w.client(polls), w.client(polls), w.caller()
		first, second := w.client(polls), w.client(polls)
		require.NoError(t, holder.NewLock(key).Lock(me))
		follows := start(func() error { return next.NewLock(key).Lock(me) })
		require.True(t, pending(follows))
		alsoFollows := start(func() error { return last.NewLock(key).Lock(me) })
		require.True(t, pending(alsoFollows))
		time.Sleep(2100 * time.Millisecond) // a name that is wanted for so long leaves turns
		require.NoError(t, holder.NewLock(key).Unlock(me))
		require.NoError(t, <-follows, "the turn comes after those that wait")
		ctx, leave := context.WithCancel(w.caller())
		leaves := start(func() error { return first.NewLock(key).Lock(ctx) })
		require.True(t, pending(leaves))
		waits := start(func() error { return second.NewLock(key).Lock(me) })
		require.True(t, pending(waits))
		require.NoError(t, next.NewLock(key).Unlock(me))
		require.NoError(t, <-alsoFollows)
		require.NoError(t, last.NewLock(key).Unlock(me))
		require.True(t, pending(leaves), "it is their turn")
		leave()
		require.ErrorIs(t, <-leaves, context.Canceled)
		within(t, 0, 200*time.Millisecond, func() { require.NoError(t, <-waits) })
		require.NoError(t, second.NewLock(key).Unlock(me))
	})
}

// The writer has joined the queue when no guest was there.
func TestAWriterFollowsAGuestThatReadsOnWhenTheReadersOfOursHaveLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reader, writer, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, reader.read.Lock(me))
		writes := start(func() error { return writer.write.Lock(me) })
		require.True(t, pending(writes))
		const timeout = "{orders:42}:" + foreignOwner + ":rwlock_timeout:1"
		w.HSet(key, foreignOwner, "1")
		require.NoError(t, w.Set(timeout, "1"))
		w.SetTTL(timeout, time.Minute)
		require.NoError(t, reader.read.Unlock(me))
		require.True(t, pending(writes))
		time.Sleep(50 * time.Millisecond)
		w.Del(key)
		w.Del(timeout)
		w.Publish("redisson_rwlock:{orders:42}", "0")
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-writes) })
		require.NoError(t, writer.write.Unlock(me))
	})
}

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
