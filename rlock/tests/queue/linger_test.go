package queue_test

import (
	"testing"
	"time"

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
			ok, err := l.TryLock(me)
			require.NoError(t, err)
			require.True(t, ok)
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
		held, err := l.IsLocked(w.Ctx)
		require.NoError(t, err)
		assert.True(t, held, "Redis shows the lock as held")
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
		h, err := l.Acquire(w.Ctx, rlock.WithLinger(0))
		require.NoError(t, err)
		require.NoError(t, h.Release(w.Ctx), "the scripts are known")
		here.Net.SetRoundTrip(roundTrip)
		there.Net.SetRoundTrip(roundTrip)
		for _, wait := range []time.Duration{0, 2 * time.Millisecond} { // too short for a ticket
			w.Use(l)
			me, you := w.Caller(), w.Caller()
			testbed.Within(t, roundTrip, 4*roundTrip, func() {
				ok, err := other.TryLockFor(me, wait, 0)
				require.NoError(t, err)
				assert.True(t, ok)
			})
			require.NoError(t, other.Unlock(me))

			require.NoError(t, l.Lock(you))
			before := there.Commands()
			ok, err := other.TryLockFor(me, wait, 0)
			require.NoError(t, err)
			assert.False(t, ok, "the lock is in use")
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
	for name, change := range map[string]func(*rlock.Config){
		"left out":           func(c *rlock.Config) { c.NoClientChannel = true },
		"guests contend":     func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways },
		"it does not linger": func(c *rlock.Config) { c.Linger = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient(testbed.Lingering(time.Hour), change)
				for range 3 {
					w.Use(p.NewLock(testbed.Key))
					time.Sleep(time.Second)
					assert.False(t, w.Exists(testbed.Key))
				}
			})
		})
	}
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
			h, err := c.p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLinger(c.linger))
			require.NoError(t, err)
			require.NoError(t, h.Release(w.Ctx))
			assert.Equal(t, c.stays, w.Exists(testbed.Key))
			time.Sleep(2 * time.Second)
			assert.False(t, w.Exists(testbed.Key))
		}
	})
}
