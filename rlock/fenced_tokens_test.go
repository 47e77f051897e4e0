package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Virtual time.

func (w *world) tokenOf(t *testing.T, lock *rlock.Lock, ctx context.Context) uint64 {
	t.Helper()
	token, err := lock.Token(ctx)
	require.NoError(t, err)
	return token
}

// waits starts a wait of a new owner, and returns the owner when it is in the queue.
func (w *world) waits(t *testing.T, lock *rlock.Lock) (ctx context.Context, result <-chan error) {
	t.Helper()
	ctx = w.caller()
	result = start(func() error { return lock.Lock(ctx) })
	require.True(t, pending(result))
	return ctx, result
}

func TestALockWithoutATokenLeftIsFreedAndNotHandedOff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		lock, me := p.NewFencedLock(key), w.caller()
		oneSection(me, t, lock) // the scripts are known
		acquires, releases := len(p.acquires()), len(p.releases())
		require.NoError(t, lock.Lock(me))
		require.EqualValues(t, 2, w.tokenOf(t, lock, me))
		var granted []uint64
		for range 1 + 16 + 1 { // the second tenure reserves sixteen tokens, since the first one used so many
			them, result := w.waits(t, lock)
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-result)
			me = them
			granted = append(granted, w.tokenOf(t, lock, me))
		}
		require.NoError(t, lock.Unlock(me))
		for i, token := range granted {
			assert.EqualValues(t, i+3, token)
		}
		assert.Equal(t, []string{"1", "16", "256"}, reserves(p.acquires()[acquires:]))
		assert.Len(t, p.releases()[releases:], 3)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		assert.Equal(t, []string{"1", "16", "256", "1"}, reserves(p.acquires()[acquires:]), "without waiters a single token is reserved")
	})
}

// reserves returns how many tokens each acquire of a fenced lock reserved.
func reserves(acquires []network.Frame) (n []string) {
	for _, f := range acquires {
		n = append(n, f.Args[len(f.Args)-1])
	}
	return n
}

// crowded returns two owners, of which the first holds the lock and the second waits, in a
// tenure with many tokens left.
func (w *world) crowded(t *testing.T, lock *rlock.Lock) (me, them context.Context, result <-chan error) {
	t.Helper()
	me = w.caller()
	require.NoError(t, lock.Lock(me))
	for range 3 {
		them, result = w.waits(t, lock)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-result)
		me = them
	}
	them, result = w.waits(t, lock)
	return me, them, result
}

func TestTheTokensOfALostTenureAreNeverUsed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.client(), w.client()
		ours, theirs, other := here.NewFencedLock(key), there.NewFencedLock(key), w.caller()
		me, them, result := w.crowded(t, ours)
		mine := w.tokenOf(t, ours, me)

		here.net.Refuse() // a pause longer than the lease
		require.NoError(t, theirs.Lock(other))
		others := w.tokenOf(t, theirs, other)
		assert.Greater(t, others, mine+10, "the token is not larger than all reserved by the lost tenure")
		here.net.Heal()
		require.True(t, pending(result))
		require.ErrorIs(t, ours.Unlock(me), rlock.ErrLost)
		require.True(t, pending(result), "the lost tenure handed the lock off")
		require.NoError(t, theirs.Unlock(other))
		require.NoError(t, <-result)
		assert.Greater(t, w.tokenOf(t, ours, them), others)
		require.NoError(t, ours.Unlock(them))
	})
}

func TestAnAcquireWithoutAReplyLeavesAGapAndNoTokenTwice(t *testing.T) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				lock := p.NewFencedLock(key)
				first := oneSection(me, t, lock)
				p.net.Rule(scripts(1, network.Cut, stage, "acquired"))
				require.NoError(t, lock.Lock(me))
				assert.Len(t, w.fields(key), 1)
				token := w.tokenOf(t, lock, me)
				assert.Greater(t, token, first)
				count, err := w.Get(tokenKey)
				require.NoError(t, err)
				assert.Equal(t, count, fmt.Sprint(token))
				require.NoError(t, lock.Unlock(me))
				assert.Equal(t, token+1, oneSection(me, t, lock))
				time.Sleep(time.Minute)
				assert.Equal(t, []string{tokenKey}, w.Keys())
			})
		})
	}
}

func TestAnAnswerWithoutATokenIsNoGrantOfAFencedLock(t *testing.T) {
	for _, reply := range []string{"_\r\n", "$1\r\nx\r\n", "$2\r\n-1\r\n", "$1\r\n0\r\n", ":5\r\n", "*0\r\n"} {
		bubbleAlone(t, func(t *testing.T, w *world) {
			p, me := w.client(), w.caller()
			lock := p.NewFencedLock(key)
			p.net.Rule(network.Nth(1, network.Replace(reply), network.Reply, "EVALSHA", "EVAL"))
			ok, err := lock.TryLock(me)
			require.Error(t, err, "%q", reply)
			assert.False(t, ok)
			time.Sleep(time.Minute)
			assert.False(t, w.Exists(key), "the possible grant was not released")
		})
	}
}

// Both kinds of lock wait over one subscription.
func TestACrowdAtALockDoesNotStarveTheFencedLockOfThatNameInItsClient(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		fenced, until, me := p.NewFencedLock(key), time.Now().Add(time.Second), w.caller()
		sections := p.crowd(w, until)
		n := 0
		for time.Now().Before(until) {
			require.NoError(t, fenced.Lock(me))
			n++
			require.NoError(t, fenced.Unlock(me))
		}
		assert.Greater(t, n, sections()/100)
	})
}
