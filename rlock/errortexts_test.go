package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// What errors tell a person.

func TestARefusalSaysThatAnAnswerIsNotInOnlyIfOneIsOutstanding(t *testing.T) {
	for name, locks := range map[string]struct {
		held, wanted func(*rlock.Client) *rlock.Lock
	}{
		"plain":     {newPlain, newPlain},
		"fair":      {newFair, newFair},
		"write":     {newWrite, newWrite},
		"read":      {newWrite, newRead},
		"readers":   {newRead, newWrite},
		"semaphore": {newPermit, newPermit},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				here, there := w.client(), w.client()
				_, err := locks.held(there.Client).Acquire(w.ctx)
				require.NoError(t, err)
				for _, p := range []*testClient{here, there} {
					for _, wait := range []time.Duration{0, time.Minute} {
						_, err = locks.wanted(p.Client).Acquire(w.ctx, rlock.WithWait(wait))
						require.ErrorIs(t, err, rlock.ErrNotAcquired)
						assert.NotContains(t, err.Error(), "answer")
					}
				}
			})
		})
	}
	t.Run("outstanding", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			p := w.client()
			p.net.SetRoundTrip(time.Second)
			first := start(func() error { return p.NewLock(key).Lock(w.caller()) })
			assert.True(t, pending(first))
			_, err := p.NewLock(key).Acquire(w.ctx, rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			assert.ErrorContains(t, err, "or is about to be: an answer is not in yet")
			require.NoError(t, <-first)
		})
	})
}

func newPlain(c *rlock.Client) *rlock.Lock  { return c.NewLock(key) }
func newFair(c *rlock.Client) *rlock.Lock   { return c.NewFairLock(key) }
func newRead(c *rlock.Client) *rlock.Lock   { return c.NewReadWriteLock(key).Read() }
func newWrite(c *rlock.Client) *rlock.Lock  { return c.NewReadWriteLock(key).Write() }
func newPermit(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(key, 1) }

func TestARefusalNamesAReaderAndTheCallingGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client().Client
		refused := func(lock *rlock.Lock) error {
			_, err := lock.Acquire(w.ctx, rlock.WithWait(time.Second))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err
		}
		require.NoError(t, c.NewLock("ours").Do(w.ctx, func(context.Context) error {
			assert.ErrorContains(t, refused(c.NewLock("ours")), "held by the calling goroutine: use the context of Do or of the Hold")
			return nil
		}))
		hold, err := newPlain(c).Acquire(w.ctx)
		require.NoError(t, err)
		assert.ErrorContains(t, refused(newPlain(c)), "held by the calling goroutine: use the context of Do or of the Hold")
		elsewhere(func() { assert.ErrorContains(t, refused(newPlain(c)), "held by a Hold of this process") })
		require.NoError(t, hold.Release(w.ctx))

		reader, err := newRead(c).Acquire(w.ctx)
		require.NoError(t, err)
		elsewhere(func() { assert.ErrorContains(t, refused(newWrite(c)), "held by a reader, a Hold of this process") })
		require.NoError(t, reader.Release(w.ctx))
	})
}

func TestARefusalNamesTheProcessOfAnotherClientThatIsKnown(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := s.client(), s.client()
	hold, err := newPlain(there).Acquire(s.ctx)
	require.NoError(t, err)
	refused := func() error {
		_, err := newPlain(here).Acquire(s.ctx, rlock.WithWait(0))
		return err
	}
	require.ErrorContains(t, refused(), "held by "+there.ID())
	state, err := here.Inspect(s.ctx, key)
	require.NoError(t, err)
	require.ErrorContains(t, refused(), "held by "+state.Holders[0].Process.String()+", owner "+there.ID())
	require.NoError(t, hold.Release(s.ctx))
}

func TestALockOfAnotherKindIsNoOtherData(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client().Client
		fails := func(lock *rlock.Lock, with string) {
			t.Helper()
			for _, wait := range []time.Duration{0, time.Minute} {
				_, err := lock.Acquire(w.ctx, rlock.WithWait(wait))
				require.ErrorIs(t, err, rlock.ErrWrongType)
				assert.ErrorContains(t, err, with)
				assert.NotContains(t, err.Error(), "delete")
				assert.NotContains(t, err.Error(), "WRONGTYPE", "that is for Unwrap")
				var redis *rueidis.RedisError
				require.ErrorAs(t, err, &redis)
				assert.ErrorContains(t, redis, "WRONGTYPE")
			}
		}
		permit, err := newPermit(c).Acquire(w.ctx)
		require.NoError(t, err)
		for _, lock := range []*rlock.Lock{newPlain(c), newWrite(c), newRead(c)} {
			fails(lock, "it is a semaphore of rlock: one name, one kind")
		}
		require.NoError(t, permit.Release(w.ctx))
		for _, lock := range []*rlock.Lock{newPlain(c), newWrite(c), newRead(c)} {
			hold, err := lock.Acquire(w.ctx)
			require.NoError(t, err)
			fails(newPermit(c), "it is a lock, and no semaphore: one name, one kind")
			require.NoError(t, hold.Release(w.ctx))
		}
		require.NoError(t, w.Set(key, "1"))
		fails(newPlain(c), "it has other data, of the type string")
	})
}

func TestAPassThatIsTooShortSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		hold, err := w.client().NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		_, err = hold.Pass(w.ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidLease)
		assert.ErrorContains(t, err, "invalid lease of 0s: a lock is passed on for ")
		assert.NotContains(t, err.Error(), "watchdog")
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestAnOwnerThatIsAGoroutineIsNamedAsOne(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		err := w.client().NewLock(key).Unlock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Regexp(t, `: goroutine \d+: `, err.Error())
	})
}
