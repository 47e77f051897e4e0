package rlock_test

import (
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
	channel := "rlock_grants:client:" + p.ID()
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
			w.answer(refusePubSub)
			p := w.client(lingering(time.Hour))
			for range 3 {
				w.use(p.NewLock(key))
				time.Sleep(time.Second)
				assert.False(t, w.Exists(key))
			}
		})
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
