package insight_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What errors tell a person.

// An attempt that has waited for the command of another call is refused with the holder that the answer has named, and fails
// with the error of that command.
func TestAnAttemptThatHasWaitedForAnotherSaysWhy(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		p.Net.SetRoundTrip(time.Second)
		attempts := func() error {
			first := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(w.Caller()) })
			assert.True(t, testbed.Pending(first))
			_, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithWait(0))
			return err
		}
		err := attempts()
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.ErrorContains(t, err, "of this process")
		w.Del(testbed.Key)
		time.Sleep(time.Minute)
		w.Set(testbed.Key, "data")
		err = attempts()
		require.ErrorIs(t, err, rlock.ErrWrongType)
		assert.ErrorContains(t, err, `lock "orders:42"`)
	})
}

func newPlain(c *rlock.Client) *rlock.Lock { return c.NewLock(testbed.Key) }

func newRead(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Read() }

func newWrite(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Write() }

func newPermit(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(testbed.Key, 1) }

func newPermits(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(testbed.Key, 2) }

func TestARefusalNamesAReaderAndTheCallingGoroutine(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient().Client
		refused := func(lock *rlock.Lock) error {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(time.Second))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err
		}
		require.NoError(t, c.NewLock("ours").Do(w.Ctx, func(context.Context) error {
			assert.ErrorContains(t, refused(c.NewLock("ours")), "held by the calling goroutine: use the context of Do or of the Hold")
			return nil
		}))
		hold := testbed.Take(t, w.Ctx, newPlain(c))
		assert.ErrorContains(t, refused(newPlain(c)), "held by the calling goroutine: use the context of Do or of the Hold")
		testbed.Elsewhere(func() { assert.ErrorContains(t, refused(newPlain(c)), "held by a Hold of this process") })
		require.NoError(t, hold.Release(w.Ctx))

		reader := testbed.Take(t, w.Ctx, newRead(c))
		testbed.Elsewhere(func() { assert.ErrorContains(t, refused(newWrite(c)), "held by a reader, a Hold of this process") })
		require.NoError(t, reader.Release(w.Ctx))
	})
}

func TestARefusalNamesTheProcessOfAnotherClientThatIsKnown(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	here, there := s.NewClient(), s.NewClient()
	hold := testbed.Take(t, s.Ctx, newPlain(there))
	refused := func() error {
		_, err := newPlain(here).Acquire(s.Ctx, rlock.WithWait(0))
		return err
	}
	require.ErrorContains(t, refused(), "held by "+inspect.Of(there).ID())
	state := testbed.Inspected(t, s.Ctx, here)
	require.ErrorContains(t, refused(), "held by "+state.Holders[0].Process.String()+", owner "+inspect.Of(there).ID())
	require.NoError(t, hold.Release(s.Ctx))
}

func TestALockOfAnotherKindIsNoOtherData(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient().Client
		fails := func(lock *rlock.Lock, with string) {
			t.Helper()
			for _, wait := range []time.Duration{0, time.Minute} {
				_, err := lock.Acquire(w.Ctx, rlock.WithWait(wait))
				require.ErrorIs(t, err, rlock.ErrWrongType)
				assert.ErrorContains(t, err, with)
				assert.NotContains(t, err.Error(), "delete")
				assert.NotContains(t, err.Error(), "WRONGTYPE", "that is for Unwrap")
				var redis *rueidis.RedisError
				require.ErrorAs(t, err, &redis)
				assert.ErrorContains(t, redis, "WRONGTYPE")
			}
		}
		permit := testbed.Take(t, w.Ctx, newPermit(c))
		for _, lock := range []*rlock.Lock{newPlain(c), newWrite(c), newRead(c)} {
			fails(lock, "it is a semaphore of rlock: one name, one kind")
		}
		require.NoError(t, permit.Release(w.Ctx))
		for _, lock := range []*rlock.Lock{newPlain(c), newWrite(c), newRead(c)} {
			hold := testbed.Take(t, w.Ctx, lock)
			fails(newPermit(c), "it is a lock, and no semaphore: one name, one kind")
			require.NoError(t, hold.Release(w.Ctx))
		}
		require.NoError(t, w.Set(testbed.Key, "1"))
		fails(newPlain(c), "it has other data, of the type string")
	})
}

func TestAPassThatIsTooShortSaysSo(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		hold := testbed.Take(t, w.Ctx, w.NewClient().NewLock(testbed.Key))
		_, err := hold.Pass(w.Ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidLease)
		assert.ErrorContains(t, err, "invalid lease of 0s: a lock is passed on for ")
		assert.NotContains(t, err.Error(), "watchdog")
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestAnOwnerThatIsAGoroutineIsNamedAsOne(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		err := w.NewClient().NewLock(testbed.Key).Unlock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Regexp(t, `: goroutine \d+: `, err.Error())
	})
}
