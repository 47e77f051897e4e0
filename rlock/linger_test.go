package rlock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// lingering returns a change that sets Config.Linger.
func lingering(linger time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Linger = linger }
}

// lingerer returns a client whose locks linger: it has taken a first lock, and so has
// subscribed to its own channel.
func (w *world) lingerer(linger time.Duration, changes ...func(*rlock.Config)) *testClient {
	w.t.Helper()
	p := w.client(append([]func(*rlock.Config){lingering(linger)}, changes...)...)
	p.listens(w)
	return p
}

// listens takes the client's first lock, and waits until the client is subscribed to its own
// channel.
func (p *testClient) listens(w *world) {
	w.t.Helper()
	channel := "rlock_turn:client:" + p.ID()
	h, err := p.NewLock("first of "+p.ID()).Acquire(w.ctx, rlock.WithLinger(0))
	require.NoError(w.t, err)
	w.eventually(func() bool { return w.PubSubNumSub(channel)[channel] == 1 }, "the client is subscribed to its own channel")
	synctest.Wait()
	require.NoError(w.t, h.Release(w.ctx))
}

// commands returns the number of commands that the client has sent for locks.
func (p *testClient) commands() int64 { return p.Stats().Commands }

// use locks and unlocks.
func (w *world) use(l locker) {
	w.t.Helper()
	me := w.caller()
	require.NoError(w.t, l.Lock(me))
	require.NoError(w.t, l.Unlock(me))
}

// A lingerKind has a lock that lingers, and a lock that another client wants.
type lingerKind struct {
	name         string
	lock, wanted func([]*rlock.Client, string) locker
}

// eachLingerKind runs the test with every kind of lock that may linger.
func eachLingerKind(t *testing.T, run func(t *testing.T, w *world, lock, wanted func(*testClient) locker)) {
	for _, kind := range []lingerKind{
		{name: "plain", lock: plainLock, wanted: plainLock},
		{name: "fenced", lock: fencedLock, wanted: fencedLock},
		{name: "fair", lock: fairLock, wanted: fairLock},
		{name: "write", lock: writeLock, wanted: writeLock},
		{name: "write for a reader", lock: writeLock, wanted: readLock},
		{name: "read for a writer", lock: readLock, wanted: writeLock},
		{name: "plain for a fair lock", lock: plainLock, wanted: fairLock},
	} {
		t.Run(kind.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				made := func(lock func([]*rlock.Client, string) locker) func(*testClient) locker {
					return func(p *testClient) locker { return lock([]*rlock.Client{p.Client}, key) }
				}
				run(t, w, made(kind.lock), made(kind.wanted))
			})
		})
	}
}

func TestALockThatLingersIsTakenAgainWithoutACommand(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, _ func(*testClient) locker) {
		p := w.lingerer(time.Second)
		l := lock(p)
		for range 40 { // a fenced lock reserves a token for one hold at first, then more and more
			w.use(l)
		}
		before, ways := p.commands(), p.Stats().AcquiredByLinger
		for range 100 {
			me := w.caller()
			ok, err := l.TryLock(me)
			require.NoError(t, err)
			require.True(t, ok)
			assert.True(t, l.IsHeld(me))
			assert.False(t, l.IsHeld(w.caller()))
			require.NoError(t, l.Unlock(me))
			assert.ErrorIs(t, l.Unlock(me), rlock.ErrNotHeld)
			assert.False(t, l.IsHeld(me))
			time.Sleep(time.Millisecond)
		}
		assert.Equal(t, before, p.commands())
		assert.Equal(t, ways+100, p.Stats().AcquiredByLinger)
		assert.Zero(t, p.Stats().Held)
		assert.Empty(t, p.Held())
		assert.True(t, w.Exists(key))
		held, err := l.IsLocked(w.ctx)
		require.NoError(t, err)
		assert.True(t, held, "Redis shows the lock as held")
	})
}

func TestALockThatHasLingeredLongEnoughIsReleased(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, _ func(*testClient) locker) {
		p := w.lingerer(time.Second)
		l := lock(p)
		for range 3 {
			w.use(l)
			time.Sleep(900 * time.Millisecond)
			assert.True(t, w.Exists(key))
		}
		time.Sleep(200 * time.Millisecond)
		assert.False(t, w.Exists(key))
		w.use(l)
		require.NoError(t, p.Close())
		assert.False(t, w.Exists(key))
		assert.Zero(t, p.logged("lost"))
	})
}

func TestALockThatLingersIsRenewed(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, _ func(*testClient) locker) {
		p := w.lingerer(time.Hour)
		l := lock(p)
		w.use(l)
		for range 20 {
			time.Sleep(7 * time.Second)
			require.Greater(t, w.ttl(key), 15*time.Second)
		}
		w.use(l)
		assert.LessOrEqual(t, p.Stats().AcquiredByRedis, int64(3), "a fenced lock has no token left the second time")
	})
}

// The subscription and the ticket are two round trips more than a free lock takes.
func TestACallFreesALockThatLingers(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, wanted func(*testClient) locker) {
		const roundTrip = 10 * time.Millisecond
		here, there := w.lingerer(time.Hour), w.client()
		l, other, me := lock(here), wanted(there), w.caller()
		w.use(l)
		here.net.SetRoundTrip(roundTrip)
		there.net.SetRoundTrip(roundTrip)
		w.use(there.NewLock("another"))
		within(t, roundTrip, 6*roundTrip, func() { require.NoError(t, other.Lock(me)) })
		require.NoError(t, other.Unlock(me))
		w.use(l)
		require.NoError(t, here.Close())
		assert.Zero(t, here.logged("lost"))
	})
}

func TestAWaiterInTheQueueCallsToo(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, wanted func(*testClient) locker) {
		here, there := w.lingerer(time.Hour), w.client()
		l, other := lock(here), wanted(there)
		w.use(other)
		for range 2 { // the second time the waiter is subscribed already, and joins without an acquire
			me, you := w.caller(), w.caller()
			require.NoError(t, l.Lock(me))
			waiting := start(func() error { return other.Lock(you) })
			require.True(t, pending(waiting))
			time.Sleep(time.Second)
			within(t, 0, 0, func() {
				require.NoError(t, l.Unlock(me))
				require.NoError(t, <-waiting)
			})
			require.NoError(t, other.Unlock(you))
			w.use(l)
			within(t, 0, 0, func() { require.NoError(t, other.Lock(you)) })
			require.NoError(t, other.Unlock(you))
		}
	})
}

func TestAnAttemptElsewhereGetsALockThatLingers(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, wanted func(*testClient) locker) {
		const roundTrip = 10 * time.Millisecond
		here, there := w.lingerer(time.Hour), w.client()
		l, other := lock(here), wanted(there)
		h, err := l.Acquire(w.ctx, rlock.WithLinger(0))
		require.NoError(t, err)
		require.NoError(t, h.Release(w.ctx), "the scripts are known")
		here.net.SetRoundTrip(roundTrip)
		there.net.SetRoundTrip(roundTrip)
		for _, wait := range []time.Duration{0, 2 * time.Millisecond} { // too short for a ticket
			w.use(l)
			me, you := w.caller(), w.caller()
			within(t, roundTrip, 4*roundTrip, func() {
				ok, err := other.TryLockFor(me, wait, 0)
				require.NoError(t, err)
				assert.True(t, ok)
			})
			require.NoError(t, other.Unlock(me))

			require.NoError(t, l.Lock(you))
			before := there.commands()
			ok, err := other.TryLockFor(me, wait, 0)
			require.NoError(t, err)
			assert.False(t, ok, "the lock is in use")
			assert.LessOrEqual(t, there.commands()-before, int64(2))
			require.NoError(t, l.Unlock(you))
			time.Sleep(time.Second)
			assert.False(t, w.Exists(key), "the lock was called while it was in use")
			time.Sleep(2 * time.Minute) // until it lingers again, though it was called often
		}
	})
}

func TestTheTokensOfALockThatLingersGrow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.lingerer(time.Hour), w.lingerer(time.Hour)
		last := uint64(0)
		for i := range 600 {
			p := here
			if i%50 == 49 {
				p = there
			}
			h, err := p.NewFencedLock(key).Acquire(w.ctx)
			require.NoError(t, err)
			token, err := h.Token()
			require.NoError(t, err)
			require.Greater(t, token, last)
			last = token
			require.NoError(t, h.Release(w.ctx))
		}
		assert.Greater(t, here.Stats().AcquiredByLinger, int64(500))
	})
}

func TestReadersLingerTogetherUntilAWriterCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var readers []*testClient
		for range 3 {
			p := w.lingerer(time.Hour)
			w.use(p.NewReadWriteLock(key).Read())
			w.use(p.NewReadWriteLock(key).Read())
			assert.Equal(t, int64(1), p.Stats().AcquiredByLinger)
			readers = append(readers, p)
		}
		writing := w.client()
		within(t, 0, 0, func() { w.use(writing.NewReadWriteLock(key).Write()) })
		for _, p := range readers {
			w.use(p.NewReadWriteLock(key).Read())
		}
		within(t, 0, 5*time.Millisecond, func() {
			ok, err := writing.NewReadWriteLock(key).Write().TryLock(w.caller())
			require.NoError(t, err)
			assert.True(t, ok)
		})
	})
}

func TestInOneProcessAWriterDoesNotWaitForReadersThatLinger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(time.Hour)
		rw := p.NewReadWriteLock(key)
		for range 3 {
			w.use(rw.Read())
			within(t, 0, 0, func() { w.use(rw.Write()) })
			assert.True(t, w.try(rw.Read()), "readers may use the writer's tenure")
			assert.True(t, w.try(rw.Write()))
		}
	})
}

func TestALockThatIsLostWhileItLingersIsNoLossOfAHolder(t *testing.T) {
	eachLingerKind(t, func(t *testing.T, w *world, lock, _ func(*testClient) locker) {
		p := w.lingerer(time.Hour)
		l := lock(p)
		for _, lose := range []func(){
			func() { w.FlushAll() },
			func() { p.net.Rule(network.Silence) },
		} {
			w.use(l)
			lose()
			time.Sleep(time.Minute)
			p.net.Heal()
			p.net.Deliver()
			time.Sleep(time.Minute)
			w.use(l)
		}
		w.use(l)
		_, err := l.ForceUnlock(w.ctx)
		require.NoError(t, err)
		assert.False(t, w.Exists(key))
		w.use(l)
		assert.Zero(t, p.Stats().Lost)
		require.NoError(t, p.Close())
		assert.Zero(t, p.logged("lock lost"))
	})
}

func TestTheLocksThatLingerAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 13 000 locks")
	}
	bubble(t, func(t *testing.T, w *world) {
		const most = 10_000
		p := w.lingerer(time.Hour)
		for i := range most + 3000 {
			w.use(p.NewLock(fmt.Sprint("many ", i)))
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		kept := len(w.Keys())
		assert.LessOrEqual(t, kept, most)
		assert.Greater(t, kept, most*9/10)
		assert.True(t, w.Exists(fmt.Sprint("many ", most+2999)), "the last lock lingers")
		assert.False(t, w.Exists("many 0"), "the first lock must not linger any more")
		require.NoError(t, p.Close())
		assert.Empty(t, w.Keys())
	})
}

// A client that cannot be called does not let locks linger.
func TestWithoutItsOwnChannelAClientDoesNotLinger(t *testing.T) {
	for name, change := range map[string]func(*rlock.Config){
		"left out":           func(c *rlock.Config) { c.NoClientChannel = true },
		"guests contend":     func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways },
		"it does not linger": func(c *rlock.Config) { c.Linger = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client(lingering(time.Hour), change)
				for range 3 {
					w.use(p.NewLock(key))
					time.Sleep(time.Second)
					assert.False(t, w.Exists(key))
				}
			})
		})
	}
	t.Run("refused", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			w.answer(func(command string, args ...string) string {
				if command == "subscribe" {
					return "NOPERM this user has no permissions to access the channel"
				}
				return ""
			})
			p := w.client(lingering(time.Hour))
			for range 3 {
				w.use(p.NewLock(key))
				time.Sleep(time.Second)
				assert.False(t, w.Exists(key))
			}
		})
	})
	t.Run("lost", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			p := w.lingerer(time.Hour)
			w.use(p.NewLock(key))
			assert.True(t, w.Exists(key))
			w.answer(func(command string, args ...string) string {
				if command == "subscribe" {
					return "NOPERM this user has no permissions to access the channel"
				}
				return ""
			})
			p.net.Cut()
			time.Sleep(time.Minute)
			w.use(p.NewLock("another"))
			assert.False(t, w.Exists("another"))
		})
	})
}

func TestANameThatIsCalledOftenStopsToLinger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.lingerer(time.Hour), w.lingerer(time.Hour)
		stayed := 0
		begin := time.Now()
		for time.Since(begin) < 20*time.Second {
			for _, p := range []*testClient{a, b} {
				w.use(p.NewLock(key))
				if w.Exists(key) {
					stayed++
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		assert.Less(t, stayed, 30, "of 1000 times")
		before := a.Stats().AcquiredByLinger
		time.Sleep(time.Minute)
		for range 10 {
			w.use(a.NewLock(key))
		}
		assert.Greater(t, a.Stats().AcquiredByLinger, before, "the name lingers again when one client uses it")
	})
}

func TestANameOnWhichAGuestWasMetDoesNotLinger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(time.Hour)
		w.HSet(key, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", "1")
		w.SetTTL(key, time.Second)
		w.use(p.NewLock(key))
		time.Sleep(time.Minute)
		w.use(p.NewLock(key))
		assert.False(t, w.Exists(key))
		time.Sleep(5 * time.Minute)
		w.use(p.NewLock(key))
		assert.True(t, w.Exists(key))
	})
}

// A client of Redisson cannot call, and the lock is in use at each renewal. Its first turn
// begins too early for this client.
func TestAGuestGetsALockThatIsUsedAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(time.Hour)
		lock := p.NewLock(key)
		w.use(lock)
		until := time.Now().Add(15 * time.Second) // one renewal, after a third of 30 s
		lateness := 50 * time.Millisecond
		sometimesLate := func() time.Duration {
			defer func() { lateness = punctual() }()
			return lateness
		}
		guest := w.foreigner(channel, foreignOwner, "1")
		contends := start(func() error { guest.contend(until, sometimesLate); return nil })
		for me := w.caller(); time.Now().Before(until); {
			require.NoError(t, lock.Lock(me))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, lock.Unlock(me))
		}
		require.NoError(t, <-contends)
		assert.Positive(t, guest.sections)
	})
}

func TestPartsAndPermitsDoNotLinger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(time.Hour)
		w.use(rlock.NewMultiLock(p.NewLock(key), p.NewLock("another")))
		w.use(p.NewSemaphore("permits", 1))
		assert.Empty(t, w.Keys())
		w.use(p.NewLock(key))
		w.use(rlock.NewMultiLock(p.NewLock(key), p.NewLock("another")))
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys())
	})
}

func TestAnAcquireChoosesHowLongTheLockLingers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, q := w.lingerer(time.Hour), w.client()
		q.listens(w)
		for _, c := range []struct {
			p      *testClient
			linger time.Duration
			stays  bool
		}{{p, 0, false}, {p, time.Second, true}, {q, time.Second, true}, {q, 0, false}} {
			h, err := c.p.NewLock(key).Acquire(w.ctx, rlock.WithLinger(c.linger))
			require.NoError(t, err)
			require.NoError(t, h.Release(w.ctx))
			assert.Equal(t, c.stays, w.Exists(key))
			time.Sleep(2 * time.Second)
			assert.False(t, w.Exists(key))
		}
	})
}

func TestALeaseThatEndsWhileTheLockIsInUseAgainIsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(time.Hour)
		l, me := p.NewLock(key), w.caller()
		w.use(l)
		require.NoError(t, l.LockFor(me, time.Second))
		time.Sleep(10 * time.Millisecond)
		assert.LessOrEqual(t, w.ttl(key), time.Second, "Redis has the new lease")
		time.Sleep(2 * time.Second)
		assert.ErrorIs(t, l.Unlock(me), rlock.ErrLost)
		w.use(l)
		require.NoError(t, l.Lock(me))
		w.FlushAll()
		time.Sleep(20 * time.Second)
		assert.ErrorIs(t, l.Unlock(me), rlock.ErrLost)
	})
}

// What Config.Linger gains and costs by its protocol alone, in virtual time as in
// contention_test.go:
//
//	go test -v -run 'InVirtualTime.*Linger' ./rlock -long

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
	bubbleAlone(t, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		var mu sync.Mutex // protects y
		begin := time.Now().Add(l.warm)
		for process := range l.processes {
			p := w.client(func(c *rlock.Config) { c.Linger = linger })
			p.net.SetRoundTrip(lingerTrip)
			random := rand.New(rand.NewPCG(1, uint64(process)))
			locks, me := make([]*rlock.Lock, l.names), w.caller()
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
	manyCommands(t)
	l := homeLoad{processes: 10, names: 200, own: 95, warm: 40 * time.Millisecond, counted: 60 * time.Millisecond}
	most := 90 // of a hundred waits: a process that has names of its own wants each of the few again soon
	if *long {
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
	bubbleAlone(t, func(t *testing.T, w *world) {
		use := [2]func(){}
		for i := range use {
			p, me := w.client(func(c *rlock.Config) { c.Linger = linger }), w.caller()
			p.net.SetRoundTrip(lingerTrip)
			lock := p.NewLock(key)
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
	manyCommands(t)
	for _, both := range []bool{false, true} {
		without, with := takeTurns(t, 0, both), takeTurns(t, time.Minute, both)
		t.Logf("both want it: %v; a turn takes %v, %v with Linger", both, without, with)
		assert.LessOrEqual(t, with, without*13/10)
	}
}
