package rlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
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
	redistest.Slow(t)
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
	redistest.Slow(t)
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
	redistest.Slow(t)
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
	redistest.Slow(t)
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
	redistest.Slow(t)
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
	redistest.Slow(t)
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

// Redisson's writer shows that it waits only by listening.
func TestAWriterOfRedissonIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	redistest.Slow(t)
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
