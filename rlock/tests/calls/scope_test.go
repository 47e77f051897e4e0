package calls_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The context of a hold carries the hold: the same lock nests, from any goroutine.

func TestALockNestsInItsHoldFromAnyGoroutineThatHasTheContext(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		for name, nest := range map[string]func(ctx context.Context) error{
			"Lock": func(ctx context.Context) error {
				if err := lock.Lock(ctx); err != nil {
					return err
				}
				return lock.Unlock(ctx)
			},
			"Acquire": func(ctx context.Context) error {
				h, err := lock.Acquire(ctx)
				if err != nil {
					return err
				}
				return h.Release(ctx)
			},
			"Do": func(ctx context.Context) error {
				return lock.Do(ctx, func(ctx context.Context) error {
					return lock.Do(ctx, func(context.Context) error { return nil })
				})
			},
			"a lock of the same name": func(ctx context.Context) error {
				return p.NewLock(testbed.Key).Do(ctx, func(context.Context) error { return nil })
			},
		} {
			elsewhereWith := func(ctx context.Context) error {
				return <-testbed.Start(func() error { return nest(ctx) })
			}
			require.NoError(t, lock.Do(w.Ctx, elsewhereWith), "in Do: %s", name)

			h := testbed.Take(t, w.Ctx, lock)
			require.NoError(t, elsewhereWith(h.Context()), "in the context of a hold: %s", name)
			require.NoError(t, elsewhereWith(h.With(w.Ctx)), "in a context with the hold: %s", name)
			require.True(t, h.Valid())
			require.NoError(t, h.Release(w.Ctx))
		}
	})
}

func TestOtherLocksAreNotAffectedByAHoldsContext(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, func(ctx context.Context) error {
			_, carries := rlock.OwnerFrom(ctx)
			assert.False(t, carries)
			other := p.NewLock("another")
			require.NoError(t, other.Lock(ctx)) // taken by this goroutine
			assert.True(t, other.IsHeld(w.Ctx))
			taken := make(chan bool)
			go func() {
				ok, err := other.TryLock(ctx)
				assert.NoError(t, err)
				taken <- ok
			}()
			assert.False(t, <-taken, "goroutines that share the context are different owners")
			return other.Unlock(ctx)
		}))
	})
}

func TestTheInnermostOfOwnersAndHoldsCounts(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewFencedLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		assert.True(t, lock.IsHeld(h.Context()))
		token, err := lock.Token(h.Context())
		require.NoError(t, err)
		assert.Equal(t, testbed.TokenOf(t, h), token)
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.NewOwner())))
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.Owner(0))))
		assert.True(t, lock.IsHeld(h.With(w.Caller())))
		require.NoError(t, h.Release(w.Ctx))
	})
}

func TestPartsNestInTheHoldOfTheWhole(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		a, b := p.NewLock("a"), p.NewLock("b")
		both := rlock.NewMultiLock(a, b)
		require.NoError(t, both.Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return a.Do(ctx, func(context.Context) error { return nil }) })
		}))
		require.NoError(t, a.Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return both.Do(ctx, func(context.Context) error { return nil }) })
		}))
	})
}

func TestAWriterReadsInItsHoldAndAReaderIsRefused(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		rw := w.NewClient().NewReadWriteLock(testbed.Key)
		require.NoError(t, rw.Write().Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return rw.Read().Do(ctx, func(context.Context) error { return nil }) })
		}))
		err := rw.Read().Do(w.Ctx, func(ctx context.Context) error {
			return <-testbed.Start(func() error { return rw.Write().Lock(ctx) })
		})
		require.ErrorIs(t, err, rlock.ErrUpgrade)
	})
}

func TestALockInTheContextOfALostHoldIsRefusedWithTheReason(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		require.NoError(t, lock.Lock(h.Context()))
		w.Del(testbed.Key)
		<-h.Context().Done()
		for _, ctx := range []context.Context{h.Context(), h.With(w.Ctx)} {
			err := lock.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrLost, "the nested level is lost")
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrNotHeld)
	})
}

func TestAContextWithAHoldEndsWithTheLossAndWithTheRequest(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		h := testbed.Take(t, w.Ctx, lock)
		type requestKey struct{}
		request, cancel := context.WithTimeout(context.WithValue(w.Ctx, requestKey{}, "42"), time.Second)
		defer cancel()
		first, second := h.With(request), h.With(w.Ctx)
		assert.Equal(t, "42", first.Value(requestKey{}))

		<-first.Done()
		require.ErrorIs(t, first.Err(), context.DeadlineExceeded)
		require.NoError(t, second.Err())
		require.NoError(t, context.Cause(h.Context()), "the end of a request does not release the lock")

		w.Del(testbed.Key)
		<-second.Done()
		require.ErrorIs(t, context.Cause(second), rlock.ErrLost)
		require.ErrorIs(t, h.Release(w.Ctx), rlock.ErrLost)
		third := h.With(w.Ctx)
		<-third.Done()
	})
}
