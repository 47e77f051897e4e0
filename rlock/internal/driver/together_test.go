package driver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// many returns locks of one client, in one slot.
func (f *fake) many(c *Client, n int) (locks []*Lock) {
	for i := range n {
		l := NewLock(c, f.kind, fmt.Sprint("many", i))
		locks = append(locks, &l)
	}
	return locks
}

// holdAll acquires the locks for an owner, as parts of a whole.
func holdAll(ctx context.Context, locks []*Lock, o terms.Owner) ([]Handle, error) {
	whole := &terms.Whole{Name: "whole"}
	requests := make([]Request, len(locks))
	for i := range requests {
		requests[i] = Request{Owner: o, Whole: whole}
	}
	return HoldAll(ctx, context.Background(), locks, requests)
}

// areFree asserts that nothing is left of the locks.
func (f *fake) areFree(locks []*Lock) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range locks {
		s := f.at(l.Name.Key)
		s.Expire(server.Time(time.Since(f.start)))
		assert.Empty(f.t, s.Holders, l.Name.Key)
	}
}

// A caller that leaves while the commands are in flight holds nothing, whatever their answers say.
func TestACallerThatLeavesARowHoldsNothing(t *testing.T) {
	for _, what := range []fate{held, late} {
		bubble(t, func(t *testing.T, f *fake) {
			locks := f.many(f.join(nil), 3)
			f.gives(what, core.Acquire)
			ctx, cancel := context.WithCancel(t.Context())
			result := later(func() error {
				_, err := holdAll(ctx, locks, terms.NewOwner())
				return err
			})
			cancel()
			require.ErrorIs(t, <-result, context.Canceled)
			for range locks { // one after the other, as the fake wire does
				f.deliver(0)
				synctest.Wait()
			}
			f.areFree(locks)
		})
	}
}

// A call that core ends before its command is over: while the release of a lock has no answer, an
// attempt for it waits for that answer, but not for long, and its lock is as any other afterwards.
func TestARowWhoseLockIsBeingReleasedHasNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		locks := f.many(c, 3)
		holds, err := holdAll(t.Context(), locks, terms.NewOwner())
		require.NoError(t, err)
		f.gives(held, core.Leave)
		released := later(func() error { return holds[0].Release(t.Context()) })
		for range 3 {
			_, err = holdAll(t.Context(), locks, terms.NewOwner())
			require.ErrorIs(t, err, terms.ErrUnanswered)
		}
		f.gives(passes)
		f.deliver(0)
		require.NoError(t, <-released)
		for _, h := range holds[1:] {
			require.NoError(t, h.Release(t.Context()))
		}
		again, err := holdAll(t.Context(), locks, terms.NewOwner())
		require.NoError(t, err)
		waits, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_, err = locks[0].Hold(waits, waits, Request{Owner: terms.NewOwner(), Wait: terms.Forever})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, h := range again {
			require.True(t, Valid(h))
			require.NoError(t, h.Release(t.Context()))
		}
		f.areFree(locks)
		time.Sleep(time.Minute) // the keeper has given back the ticket of the call that has waited
		assert.Nil(t, c.lockOf(locks[0]), "it is forgotten")
	})
}

// lockOf returns the lock as the client keeps it, nil if it has forgotten it.
func (c *Client) lockOf(l *Lock) *lock {
	one, _ := c.enterIfAny(l.Name, 0)
	if one != nil {
		one.shard.exit(one)
	}
	return one
}
