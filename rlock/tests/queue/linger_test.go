package queue_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lingerKind has a lock that lingers, and a lock that another client wants.
type lingerKind struct {
	name         string
	lock, wanted func([]*rlock.Client, string) testbed.Locker
}

// eachLingerKind runs the test with every kind of lock that may linger.
func eachLingerKind(t *testing.T, run func(t *testing.T, w *testbed.World, lock, wanted func(*testbed.Client) testbed.Locker)) {
	for _, kind := range []lingerKind{
		{name: "plain", lock: testbed.PlainLock, wanted: testbed.PlainLock},
		{name: "fenced", lock: testbed.FencedLock, wanted: testbed.FencedLock},
		{name: "fair", lock: testbed.FairLock, wanted: testbed.FairLock},
		{name: "write", lock: testbed.WriteLock, wanted: testbed.WriteLock},
		{name: "write for a reader", lock: testbed.WriteLock, wanted: testbed.ReadLock},
		{name: "read for a writer", lock: testbed.ReadLock, wanted: testbed.WriteLock},
		{name: "plain for a fair lock", lock: testbed.PlainLock, wanted: testbed.FairLock},
	} {
		t.Run(kind.name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				made := func(lock func([]*rlock.Client, string) testbed.Locker) func(*testbed.Client) testbed.Locker {
					return func(p *testbed.Client) testbed.Locker { return lock([]*rlock.Client{p.Client}, testbed.Key) }
				}
				run(t, w, made(kind.lock), made(kind.wanted))
			})
		})
	}
}

func TestALockThatLingersIsTakenAgainWithoutACommand(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *testbed.World, lock, _ func(*testbed.Client) testbed.Locker) {
		p := w.NewLingerer(time.Second)
		l := lock(p)
		for range 40 { // a fenced lock reserves a token for one hold at first, then more and more
			w.Use(l)
		}
		before, ways := p.Commands(), p.Stats().AcquiredByLinger
		for range 100 {
			me := w.Caller()
			require.True(t, testbed.Tries(t, me, l))
			assert.True(t, l.IsHeld(me))
			assert.False(t, l.IsHeld(w.Caller()))
			require.NoError(t, l.Unlock(me))
			assert.ErrorIs(t, l.Unlock(me), rlock.ErrNotHeld)
			time.Sleep(time.Millisecond)
		}
		assert.Equal(t, before, p.Commands())
		assert.Equal(t, ways+100, p.Stats().AcquiredByLinger)
		assert.Zero(t, p.Stats().Held)
		assert.Empty(t, p.Held())
		assert.True(t, w.Exists(testbed.Key))
		assert.True(t, testbed.IsLocked(t, w.Ctx, l), "Redis shows the lock as held")
	})
}

func TestALockThatLingersIsRenewedAndThenReleased(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *testbed.World, lock, _ func(*testbed.Client) testbed.Locker) {
		p := w.NewLingerer(2 * time.Minute)
		l := lock(p)
		w.Use(l)
		for range 17 {
			time.Sleep(7 * time.Second)
			require.Greater(t, w.Remaining(testbed.Key), 15*time.Second)
		}
		w.Use(l)
		time.Sleep(119 * time.Second)
		assert.True(t, w.Exists(testbed.Key), "Linger has begun anew")
		time.Sleep(2 * time.Second)
		assert.False(t, w.Exists(testbed.Key))
		w.Use(l)
		require.NoError(t, p.Close())
		assert.False(t, w.Exists(testbed.Key))
		assert.Zero(t, p.Logged("lost"))
	})
}

// The subscription and the ticket are two round trips more than a free lock takes.
func TestACallFreesALockThatLingers(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *testbed.World, lock, wanted func(*testbed.Client) testbed.Locker) {
		const roundTrip = 10 * time.Millisecond
		here, there := w.NewLingerer(time.Hour), w.NewClient()
		l, other, me := lock(here), wanted(there), w.Caller()
		w.Use(l)
		here.Net.SetRoundTrip(roundTrip)
		there.Net.SetRoundTrip(roundTrip)
		w.Use(there.NewLock("another"))
		testbed.Within(t, roundTrip, 6*roundTrip, func() { require.NoError(t, other.Lock(me)) })
		require.NoError(t, other.Unlock(me))
		w.Use(l)
		require.NoError(t, here.Close())
		assert.Zero(t, here.Logged("lost"))
	})
}

func TestAnAttemptElsewhereGetsALockThatLingers(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *testbed.World, lock, wanted func(*testbed.Client) testbed.Locker) {
		const roundTrip = 10 * time.Millisecond
		here, there := w.NewLingerer(time.Hour), w.NewClient()
		l, other := lock(here), wanted(there)
		h := testbed.Take(t, w.Ctx, l, rlock.WithLinger(0))
		require.NoError(t, h.Release(w.Ctx), "the scripts are known")
		here.Net.SetRoundTrip(roundTrip)
		there.Net.SetRoundTrip(roundTrip)
		for _, wait := range []time.Duration{0, 2 * time.Millisecond} { // too short for a ticket
			w.Use(l)
			me, you := w.Caller(), w.Caller()
			testbed.Within(t, roundTrip, 4*roundTrip, func() {
				assert.True(t, testbed.TriesFor(t, me, other, wait))
			})
			require.NoError(t, other.Unlock(me))

			require.NoError(t, l.Lock(you))
			before := there.Commands()
			assert.False(t, testbed.TriesFor(t, me, other, wait), "the lock is in use")
			assert.LessOrEqual(t, there.Commands()-before, int64(2))
			require.NoError(t, l.Unlock(you))
			time.Sleep(time.Second)
			assert.False(t, w.Exists(testbed.Key), "the lock was called while it was in use")
			time.Sleep(2 * time.Minute) // until it lingers again, though it was called often
		}
	})
}

// A client that cannot be called does not let locks linger.
func TestWithoutItsOwnChannelAClientDoesNotLinger(t *testing.T) {
	testbed.EachBubble(t, map[string]func(*rlock.Config){
		"left out":           func(c *rlock.Config) { c.NoClientChannel = true },
		"guests contend":     func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways },
		"it does not linger": func(c *rlock.Config) { c.Linger = -1 },
	}, func(t *testing.T, w *testbed.World, change func(*rlock.Config)) {
		p := w.NewClient(testbed.Lingering(time.Hour), change)
		for range 3 {
			w.Use(p.NewLock(testbed.Key))
			time.Sleep(time.Second)
			assert.False(t, w.Exists(testbed.Key))
		}
	})
	t.Run("refused", func(t *testing.T) {
		testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
			w.Answer(testbed.RefusePubSub)
			p := w.NewClient(testbed.Lingering(time.Hour))
			for range 3 {
				w.Use(p.NewLock(testbed.Key))
				time.Sleep(time.Second)
				assert.False(t, w.Exists(testbed.Key))
			}
		})
	})
}

func TestPartsAndPermitsDoNotLinger(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewLingerer(time.Hour)
		w.Use(rlock.NewMultiLock(p.NewLock(testbed.Key), p.NewLock("another")))
		w.Use(p.NewSemaphore("permits", 1))
		assert.Empty(t, w.Keys())
		w.Use(p.NewLock(testbed.Key))
		w.Use(rlock.NewMultiLock(p.NewLock(testbed.Key), p.NewLock("another")))
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys())
	})
}

func TestAnAcquireChoosesHowLongTheLockLingers(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, q := w.NewLingerer(time.Hour), w.NewClient()
		q.Listens(w)
		for _, c := range []struct {
			p      *testbed.Client
			linger time.Duration
			stays  bool
		}{{p, 0, false}, {p, time.Second, true}, {q, time.Second, true}, {q, 0, false}} {
			h := testbed.Take(t, w.Ctx, c.p.NewLock(testbed.Key), rlock.WithLinger(c.linger))
			require.NoError(t, h.Release(w.Ctx))
			assert.Equal(t, c.stays, w.Exists(testbed.Key))
			time.Sleep(2 * time.Second)
			assert.False(t, w.Exists(testbed.Key))
		}
	})
}

// What Config.Linger gains and costs by its protocol alone, in virtual time as in
// contention_test.go:
//
//	go test -v -run 'InVirtualTime.*Linger' ./rlock/tests/queue -long

const (
	lingerTrip    = 500 * time.Microsecond // a round trip
	lingerSection = 10 * time.Microsecond
)

// A homeLoad is processes that each have names of their own, and lock one of these for most
// of their sections, else one of another process.
type homeLoad struct {
	processes, names int
	own              int // of a hundred sections
	warm, counted    time.Duration
}

// A homeTally is what a homeLoad has come to.
type homeTally struct {
	sections int
	away     []time.Duration // the waits for a name of another process
}

// In run all processes lock and unlock for that long.
func (l homeLoad) run(t *testing.T, linger time.Duration) (y homeTally) {
	t.Helper()
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		var all sync.WaitGroup
		var mu sync.Mutex // protects y
		begin := time.Now().Add(l.warm)
		for process := range l.processes {
			p := w.NewClient(func(c *rlock.Config) { c.Linger = linger })
			p.Net.SetRoundTrip(lingerTrip)
			random := rand.New(rand.NewPCG(1, uint64(process)))
			locks, me := make([]*rlock.Lock, l.names), w.Caller()
			for name := range locks {
				locks[name] = p.NewLock(fmt.Sprint("name ", name))
			}
			all.Go(func() {
				for since := time.Now(); since.Before(begin.Add(l.counted)); since = time.Now() {
					name := random.IntN(l.names/l.processes)*l.processes + process
					away := random.IntN(100) >= l.own
					if away {
						name = random.IntN(l.names)
					}
					if !assert.NoError(t, locks[name].Lock(me)) {
						return
					}
					wait := time.Since(since)
					time.Sleep(lingerSection)
					if !assert.NoError(t, locks[name].Unlock(me)) {
						return
					}
					if since.Before(begin) {
						continue
					}
					mu.Lock()
					y.sections++
					if away {
						y.away = append(y.away, wait)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	})
	return y
}

func TestInVirtualTimeNamesWithAProcessOfTheirOwnAreFiveTimesAsFastWithLinger(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	l := homeLoad{processes: 10, names: 200, own: 95, warm: 40 * time.Millisecond, counted: 60 * time.Millisecond}
	most := 90 // of a hundred waits: a process that has names of its own wants each of the few again soon
	if *testbed.Long {
		l = homeLoad{processes: 20, names: 1000, own: 95, warm: 100 * time.Millisecond, counted: 500 * time.Millisecond}
		most = 99
	}
	without, with := l.run(t, 0), l.run(t, time.Minute)
	t.Logf("%d sections, %d with Linger; waits for the name of another: p50 %v, p%d %v; with Linger %v, %v",
		without.sections, with.sections, percentile(without.away, 50), most, percentile(without.away, most), percentile(with.away, 50), percentile(with.away, most))
	assert.GreaterOrEqual(t, with.sections, 5*without.sections)
	assert.LessOrEqual(t, percentile(with.away, most), percentile(without.away, most)+2*lingerTrip)
}

// In takeTurns two processes lock one name in turn, which is the worst case. Either both always
// want it, or each wants it when the other has unlocked it. It returns the time of a turn.
func takeTurns(t *testing.T, linger time.Duration, both bool) (turn time.Duration) {
	t.Helper()
	const turns = 200
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		use := [2]func(){}
		for i := range use {
			p, me := w.NewClient(func(c *rlock.Config) { c.Linger = linger }), w.Caller()
			p.Net.SetRoundTrip(lingerTrip)
			lock := p.NewLock(testbed.Key)
			use[i] = func() {
				assert.NoError(t, lock.Lock(me))
				time.Sleep(lingerSection)
				assert.NoError(t, lock.Unlock(me))
			}
		}
		began := time.Now()
		if both {
			var all sync.WaitGroup
			for _, use := range use {
				all.Go(func() {
					for range turns / 2 {
						use()
					}
				})
			}
			all.Wait()
		} else {
			for turn := range turns {
				use[turn%2]()
			}
		}
		turn = time.Since(began) / turns
	})
	return turn
}

func TestInVirtualTimeTwoProcessesInTurnLoseLittleWithLinger(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	for _, both := range []bool{false, true} {
		without, with := takeTurns(t, 0, both), takeTurns(t, time.Minute, both)
		t.Logf("both want it: %v; a turn takes %v, %v with Linger", both, without, with)
		assert.LessOrEqual(t, with, without*13/10)
	}
}
