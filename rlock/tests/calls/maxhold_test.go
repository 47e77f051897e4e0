package calls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Holds with an end: WithMaxHold and Extend.

func TestAHungHolderLosesTheLockAfterItsMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lost := make(chan rlock.LostInfo, 1)
		p, other := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Lost: func(_ context.Context, i rlock.LostInfo) { lost <- i }}
		}), w.NewClient()
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithMaxHold(time.Minute))
		assert.LessOrEqual(t, w.Remaining(testbed.Key), 30*time.Second, "if the process dies others wait for a lease only")
		began := time.Now()
		next := testbed.Waits(t, func() error { return other.NewLock(testbed.Key).Lock(w.Caller()) })
		testbed.Within(t, time.Minute, time.Minute, func() { <-h.Context().Done() })
		cause := context.Cause(h.Context())
		require.ErrorIs(t, cause, rlock.ErrHeldTooLong)
		require.ErrorIs(t, cause, rlock.ErrLost)
		assert.False(t, h.Valid())
		testbed.Within(t, 0, 0, func() { require.NoError(t, <-next) })
		assert.Equal(t, time.Minute, time.Since(began))

		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), rlock.ErrHeldTooLong)
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrHeldTooLong)
		assert.Equal(t, rlock.LostHeldTooLong, (<-lost).Reason)
		assert.EqualValues(t, 1, p.Stats().LostHeldTooLong)
		assert.EqualValues(t, 1, p.Stats().Lost)
		assert.Equal(t, 1, p.Logged("level=WARN msg=\"rlock: lock lost\""))
	})
}

// A dead man's switch: the hold lasts for as long as somebody says so, at no command.
func TestExtendMovesAMaximumWithoutACommand(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.Lease, c.Advanced.RedissonPolls = time.Hour, rlock.RedissonPollsNever })
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithMaxHold(10*time.Second))
		sent := p.Stats().Commands
		for range 5 {
			time.Sleep(9 * time.Second)
			require.NoError(t, h.Extend(w.Ctx, 10*time.Second))
		}
		assert.Equal(t, sent, p.Stats().Commands)
		require.NoError(t, h.Extend(w.Ctx, time.Second), "sooner")
		testbed.Within(t, time.Second, time.Second, func() { <-h.Context().Done() })
		require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrHeldTooLong)
	})
}

func TestExtendAsksRedisForALeaseOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.Advanced.RedissonPolls = rlock.RedissonPollsNever })
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithLease(10*time.Second))
		require.NoError(t, h.Extend(w.Ctx, 10*time.Second)) // Redis knows the script from now on
		for _, d := range []time.Duration{time.Minute, 5 * time.Second} {
			time.Sleep(time.Second)
			sent := p.Stats().Commands
			require.NoError(t, h.Extend(w.Ctx, d))
			assert.Equal(t, sent+1, p.Stats().Commands)
			assert.Equal(t, d, w.Remaining(testbed.Key))
			assert.InDelta(t, float64(d), float64(time.Until(h.ValidUntil())), float64(d)/50)
		}
		testbed.Within(t, 4*time.Second, 5*time.Second, func() { <-h.Context().Done() })
		cause := context.Cause(h.Context())
		require.ErrorIs(t, cause, rlock.ErrLost)
		require.NotErrorIs(t, cause, rlock.ErrHeldTooLong)
	})
}

func TestExtendWaitsForItsContextWhileRedisIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithLease(10*time.Second))
		p.Net.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		testbed.Within(t, time.Second, time.Second, func() { require.ErrorIs(t, h.Extend(ctx, time.Minute), context.DeadlineExceeded) })
		p.Net.Heal()
		time.Sleep(5 * time.Second)
		assert.Greater(t, w.Remaining(testbed.Key), 50*time.Second, "it is asked again")

		p.Net.Rule(network.Silence)
		testbed.Within(t, 45*time.Second, time.Minute, func() { require.ErrorIs(t, h.Extend(w.Ctx, time.Hour), rlock.ErrLost) })
	})
}

// The second of two calls for the same end finds a command under way that asks for it, and must not take that for an answer.
func TestEachCallOfExtendWaitsForTheConfirmation(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithLease(10*time.Second))
		p.Net.Rule(network.Silence)
		extend := func() error { return h.Extend(w.Ctx, time.Minute) }
		first, second := testbed.Start(extend), testbed.Start(extend)
		time.Sleep(5 * time.Second)
		assert.Empty(t, first)
		assert.Empty(t, second)
		p.Net.Heal()
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		assert.Greater(t, w.Remaining(testbed.Key), 50*time.Second)
	})
}

func TestAHoldWithoutAnEndIsNotExtended(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), rlock.ErrInvalidLease)
		require.NoError(t, h.Release(w.Ctx))
		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), rlock.ErrNotHeld)
		for _, options := range [][]rlock.AcquireOption{
			{rlock.WithMaxHold(-time.Second)}, {rlock.WithMaxHold(time.Millisecond)},
			{rlock.WithMaxHold(time.Second), rlock.WithLease(time.Second)}, {rlock.WithLease(time.Second), rlock.WithMaxHold(time.Second)},
		} {
			require.ErrorIs(t, testbed.ErrorOf(lock.Acquire(w.Ctx, options...)), rlock.ErrInvalidLease)
		}
		for text, options := range map[string][]rlock.AcquireOption{
			"WithMaxHold of -1ns: use at least":                        {rlock.WithMaxHold(-1)},
			"WithMaxHold of 1s is shorter than WithMinHold of 1m0s":    {rlock.WithMinHold(time.Minute), rlock.WithMaxHold(time.Second)},
			"WithLease ends the hold by itself: leave out WithMaxHold": {rlock.WithMaxHold(-1), rlock.WithLease(time.Second)},
		} {
			err := testbed.ErrorOf(lock.Acquire(w.Ctx, options...))
			require.ErrorIs(t, err, rlock.ErrInvalidLease)
			assert.ErrorContains(t, err, text)
		}
		h = testbed.Take(t, w.Ctx, lock, rlock.WithMaxHold(time.Minute))
		for _, d := range []time.Duration{0, -time.Second, time.Millisecond} {
			require.ErrorIs(t, h.Extend(w.Ctx, d), rlock.ErrInvalidLease)
		}
	})
}

func TestALockOverSeveralHasNoMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		multi := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b"))
		require.ErrorIs(t, testbed.ErrorOf(multi.Acquire(w.Ctx, rlock.WithMaxHold(time.Minute))), errors.ErrUnsupported)
		h := testbed.Take(t, w.Ctx, multi, rlock.WithLease(time.Minute))
		require.ErrorIs(t, h.Extend(w.Ctx, time.Minute), errors.ErrUnsupported)
	})
}

// Each kind of one key: a maximum ends its own hold.
func TestEachKindHasAMaximum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		rw := p.NewReadWriteLock("rw")
		other := testbed.Take(t, w.Ctx, rw.Read())
		for _, lock := range []*rlock.Lock{p.NewFencedLock("fenced"), p.NewFairLock("fair"), p.NewSemaphore("permits", 2), rw.Read(), p.NewReadWriteLock("w").Write()} {
			h := testbed.Take(t, w.Ctx, lock, rlock.WithMaxHold(time.Minute))
			testbed.Within(t, time.Minute, time.Minute, func() { <-h.Context().Done() })
			require.ErrorIs(t, context.Cause(h.Context()), rlock.ErrHeldTooLong, lock.Name())
		}
		assert.True(t, other.Valid(), "another reader goes on")
	})
}

// Who resumes a lock that was passed on says for how long it is held.
func TestAMaximumIsNotPassedOn(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithMaxHold(time.Minute))
		pass := testbed.PassedOn(t, w.Ctx, h, time.Minute)
		h, err := other.Resume(w.Ctx, pass)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.True(t, h.Valid())
		pass = testbed.PassedOn(t, w.Ctx, h, time.Minute)
		h, err = p.Resume(w.Ctx, pass, rlock.WithMaxHold(time.Minute))
		require.NoError(t, err)
		testbed.Within(t, time.Minute, time.Minute, func() { <-h.Context().Done() })
	})
}

// Holds whose lock stays for a time at least: WithMinHold.

func TestALockStaysForItsMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		lock, began := p.NewLock(testbed.Key), time.Now()
		h := testbed.Take(t, w.Ctx, lock, rlock.WithMinHold(time.Minute))
		here := testbed.Start(func() error { return lock.Do(w.Ctx, testbed.Nothing) })
		time.Sleep(10 * time.Second)
		require.NoError(t, h.Release(w.Ctx))
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrNotHeld)
		assert.Equal(t, 50*time.Second, w.Remaining(testbed.Key))
		require.ErrorIs(t, testbed.ErrorOf(other.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithWait(0))), rlock.ErrNotAcquired)
		there := testbed.Start(func() error { return other.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing) })
		require.True(t, testbed.Pending(here))
		require.NoError(t, <-here)
		require.NoError(t, <-there)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		assert.Less(t, time.Since(began), time.Minute+3*time.Second)
		assert.EqualValues(t, 0, p.Stats().Held)
	})
}

// The lock stays after its last level, whichever that is.
func TestANestedHoldHasAMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(w.Ctx, func(ctx context.Context) error {
			return lock.Do(ctx, testbed.Nothing, rlock.WithMinHold(time.Minute))
		}))
		assert.Equal(t, time.Minute, w.Remaining(testbed.Key))
		time.Sleep(time.Minute)
		require.NoError(t, lock.Do(w.Ctx, testbed.Nothing), "a later hold has no minimum")
		assert.Empty(t, w.Fields(testbed.Key))
	})
}

func TestEachKindHasAMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		for kind, lock := range testbed.LocksOf("fenced", "fair", "semaphore", "write") {
			began := time.Now()
			require.NoError(t, lock(p.Client).Do(w.Ctx, testbed.Nothing, rlock.WithMinHold(time.Minute)))
			_, err := lock(other.Client).Acquire(w.Ctx, rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired, kind)
			require.NoError(t, lock(other.Client).Do(w.Ctx, testbed.Nothing))
			assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		}
		rw := p.NewReadWriteLock("readers")
		require.NoError(t, rw.Read().Do(w.Ctx, testbed.Nothing, rlock.WithMinHold(time.Minute)))
		_, err := other.NewReadWriteLock("readers").Write().Acquire(w.Ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		require.NoError(t, other.NewReadWriteLock("readers").Read().Do(w.Ctx, testbed.Nothing), "readers may come")
	})
}

// The end of the lock is sooner than the first waiter has read: it is told, and looks then.
func TestTheFirstWaiterHasTheLockAtItsEnd(t *testing.T) {
	ends := map[string]func(context.Context, *rlock.Hold) error{
		"least time": func(ctx context.Context, h *rlock.Hold) error { return h.Release(ctx) },
		"pass": func(ctx context.Context, h *rlock.Hold) error {
			return testbed.ErrorOf(h.Pass(ctx, 1300*time.Millisecond))
		},
	}
	for name, end := range ends {
		for kind, lock := range testbed.LocksOf("plain", "fenced", "fair", "write") {
			t.Run(name+", "+kind, func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					p, other := w.NewClient(), w.NewClient()
					began := time.Now()
					h := testbed.Take(t, w.Ctx, lock(p.Client), rlock.WithMinHold(1500*time.Millisecond))
					waits := testbed.Waits(t, func() error { return lock(other.Client).Lock(w.Caller()) })
					time.Sleep(200 * time.Millisecond)
					require.NoError(t, end(w.Ctx, h))
					require.NoError(t, p.Close())
					require.NoError(t, <-waits)
					assert.InDelta(t, 1.5, time.Since(began).Seconds(), 0.05, "seconds")
				})
			})
		}
	}
}

// A stay that Redis does not confirm becomes a release, and the caller learns that the minimum is not sure.
func TestAMinimumThatRedisDoesNotConfirmIsReleased(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithMinHold(time.Hour))
		p.Net.Rule(network.Silence)
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrUnconfirmed)
		p.Net.Heal()
		time.Sleep(time.Minute)
		assert.Empty(t, w.Fields(testbed.Key))
	})
}

func TestALockOverSeveralHasNoMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		_, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.Ctx, rlock.WithMinHold(time.Minute))
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

func TestAReleaseWithAWriteKeepsTheMinimum(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		h := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key), rlock.WithMinHold(time.Minute))
		_, err := h.ReleaseWith(w.Ctx, "return redis.call('set', KEYS[1], 'x')", []string{"data"}, nil)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, w.Remaining(testbed.Key))
		assert.True(t, w.Exists("data"))
	})
}

// The lock stays for the minimum of a level that was released before, and the write of the last one is executed even so.
func TestAReleaseWithAWriteWhoseLockStaysForAnInnerLevelWrites(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		outer := testbed.Take(t, w.Ctx, lock)
		inner := testbed.Take(t, outer.Context(), lock, rlock.WithMinHold(time.Minute))
		require.NoError(t, inner.Release(w.Ctx))
		_, err := outer.ReleaseWith(w.Ctx, "return redis.call('set', KEYS[1], 'x')", []string{"data"}, nil)
		require.NoError(t, err)
		assert.True(t, w.Exists("data"))
		assert.False(t, testbed.Tries(t, w.Caller(), lock))
	})
}

// The context of a ReleaseWith ends nothing, also where it takes two steps.
func TestAReleaseWithAWriteInTwoStepsOutlivesItsContext(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		outer := testbed.Take(t, w.Ctx, lock)
		inner := testbed.Take(t, outer.Context(), lock)
		ended, cancel := context.WithCancel(w.Ctx)
		cancel()
		_, err := inner.ReleaseWith(ended, "return redis.call('set', KEYS[1], 'x')", []string{"data"}, nil)
		require.NoError(t, err)
		assert.True(t, w.Exists("data"))
		require.NoError(t, outer.Release(w.Ctx))
	})
}
