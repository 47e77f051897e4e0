package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The context of a hold carries the hold: the same lock nests, from any goroutine.

func TestALockNestsInItsHoldFromAnyGoroutineThatHasTheContext(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		lock := p.lock(key)
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
				return p.lock(key).Do(ctx, func(context.Context) error { return nil })
			},
		} {
			elsewhereWith := func(ctx context.Context) error {
				return <-start(func() error { return nest(ctx) })
			}
			require.NoError(t, lock.Do(w.ctx, elsewhereWith), "in Do: %s", name)

			h, err := lock.Acquire(w.ctx)
			require.NoError(t, err)
			require.NoError(t, elsewhereWith(h.Context()), "in the context of a hold: %s", name)
			require.NoError(t, elsewhereWith(h.With(w.ctx)), "in a context with the hold: %s", name)
			require.True(t, h.Valid())
			require.NoError(t, h.Release(w.ctx))
		}
	})
}

func TestOtherLocksAreNotAffectedByAHoldsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		require.NoError(t, p.NewLock(key).Do(w.ctx, func(ctx context.Context) error {
			_, carries := rlock.OwnerFrom(ctx)
			assert.False(t, carries)
			other := p.NewLock("another")
			require.NoError(t, other.Lock(ctx)) // taken by this goroutine
			assert.True(t, other.IsHeld(w.ctx))
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
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		h, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		assert.True(t, lock.IsHeld(h.Context()))
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.NewOwner())))
		assert.False(t, lock.IsHeld(rlock.WithOwner(h.Context(), rlock.Owner(0))))
		assert.True(t, lock.IsHeld(h.With(w.caller())))
		require.NoError(t, h.Release(w.ctx))
	})
}

func TestPartsNestInTheHoldOfTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		a, b := p.NewLock("a"), p.NewLock("b")
		both := rlock.NewMultiLock(a, b)
		require.NoError(t, both.Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return a.Do(ctx, func(context.Context) error { return nil }) })
		}))
		require.NoError(t, a.Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return both.Do(ctx, func(context.Context) error { return nil }) })
		}))
	})
}

func TestAWriterReadsInItsHoldAndAReaderIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rw := w.client().NewReadWriteLock(key)
		require.NoError(t, rw.Write().Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return rw.Read().Do(ctx, func(context.Context) error { return nil }) })
		}))
		err := rw.Read().Do(w.ctx, func(ctx context.Context) error {
			return <-start(func() error { return rw.Write().Lock(ctx) })
		})
		require.ErrorIs(t, err, rlock.ErrUpgrade)
	})
}

func TestALockInTheContextOfALostHoldIsRefusedWithTheReason(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		h, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, lock.Lock(h.Context()))
		w.Del(key)
		<-h.Context().Done()
		for _, ctx := range []context.Context{h.Context(), h.With(w.ctx)} {
			err = lock.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrLost, "the nested level is lost")
		require.ErrorIs(t, h.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, lock.Unlock(h.Context()), rlock.ErrNotHeld)
	})
}

func TestAContextWithAHoldEndsWithTheLossAndWithTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		h, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		type requestKey struct{}
		request, cancel := context.WithTimeout(context.WithValue(w.ctx, requestKey{}, "42"), time.Second)
		defer cancel()
		first, second := h.With(request), h.With(w.ctx)
		assert.Equal(t, "42", first.Value(requestKey{}))

		<-first.Done()
		require.ErrorIs(t, first.Err(), context.DeadlineExceeded)
		require.NoError(t, second.Err())
		require.NoError(t, context.Cause(h.Context()), "the end of a request does not release the lock")

		w.Del(key)
		<-second.Done()
		require.ErrorIs(t, context.Cause(second), rlock.ErrLost)
		require.ErrorIs(t, h.Release(w.ctx), rlock.ErrLost)
		third := h.With(w.ctx)
		<-third.Done()
	})
}

// The context of With ends before another client can have the lock.
func TestAContextMadeOfAHoldEndsBeforeTheReleaseIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		for range rounds(200) {
			hold, err := p.NewFairLock(key).Acquire(w.caller())
			require.NoError(t, err)
			merged := hold.With(w.ctx)
			ended := false
			p.net.Rule(func(f network.Frame) network.Fate {
				if f.Stage == network.Request && isScript(f, "released") {
					ended = merged.Err() != nil
				}
				return network.Pass
			})
			require.NoError(t, hold.Release(w.ctx))
			require.True(t, ended)
			require.ErrorIs(t, context.Cause(merged), rlock.ErrNotHeld)
		}
	})
}
