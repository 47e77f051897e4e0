package kinds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Virtual time.

func tokenNow(w *testbed.World, t *testing.T, lock *rlock.Lock, ctx context.Context) uint64 {
	t.Helper()
	token, err := lock.Token(ctx)
	require.NoError(t, err)
	return token
}

// waitsFor starts a wait of a new owner, and returns the owner when it is in the queue.
func waitsFor(w *testbed.World, t *testing.T, lock *rlock.Lock) (ctx context.Context, result <-chan error) {
	t.Helper()
	ctx = w.Caller()
	result = testbed.Start(func() error { return lock.Lock(ctx) })
	require.True(t, testbed.Pending(result))
	return ctx, result
}

func TestALockWithoutATokenLeftIsFreedAndNotHandedOff(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock, me := p.NewFencedLock(testbed.Key), w.Caller()
		testbed.OneSection(me, t, lock) // the scripts are known
		acquires, releases := len(p.Acquires()), len(p.Releases())
		require.NoError(t, lock.Lock(me))
		require.EqualValues(t, 2, tokenNow(w, t, lock, me))
		var granted []uint64
		for range 1 + 16 + 1 { // the second tenure reserves sixteen tokens, since the first one used so many
			them, result := waitsFor(w, t, lock)
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-result)
			me = them
			granted = append(granted, tokenNow(w, t, lock, me))
		}
		require.NoError(t, lock.Unlock(me))
		for i, token := range granted {
			assert.EqualValues(t, i+3, token)
		}
		assert.Equal(t, []string{"1", "16", "256"}, reserves(p.Acquires()[acquires:]))
		assert.Len(t, p.Releases()[releases:], 3)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me))
		assert.Equal(t, []string{"1", "16", "256", "1"}, reserves(p.Acquires()[acquires:]), "without waiters a single token is reserved")
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
func crowded(w *testbed.World, t *testing.T, lock *rlock.Lock) (me, them context.Context, result <-chan error) {
	t.Helper()
	me = w.Caller()
	require.NoError(t, lock.Lock(me))
	for range 3 {
		them, result = waitsFor(w, t, lock)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-result)
		me = them
	}
	them, result = waitsFor(w, t, lock)
	return me, them, result
}

func TestTheTokensOfALostTenureAreNeverUsed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := w.NewClient(), w.NewClient()
		ours, theirs, other := here.NewFencedLock(testbed.Key), there.NewFencedLock(testbed.Key), w.Caller()
		me, them, result := crowded(w, t, ours)
		mine := tokenNow(w, t, ours, me)

		here.Net.Refuse() // a pause longer than the lease
		require.NoError(t, theirs.Lock(other))
		others := tokenNow(w, t, theirs, other)
		assert.Greater(t, others, mine+10, "the token is not larger than all reserved by the lost tenure")
		here.Net.Heal()
		require.True(t, testbed.Pending(result))
		require.ErrorIs(t, ours.Unlock(me), rlock.ErrLost)
		require.True(t, testbed.Pending(result), "the lost tenure handed the lock off")
		require.NoError(t, theirs.Unlock(other))
		require.NoError(t, <-result)
		assert.Greater(t, tokenNow(w, t, ours, them), others)
		require.NoError(t, ours.Unlock(them))
	})
}

func TestAnAcquireWithoutAReplyLeavesAGapAndNoTokenTwice(t *testing.T) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				lock := p.NewFencedLock(testbed.Key)
				first := testbed.OneSection(me, t, lock)
				p.Net.Rule(testbed.Scripts(1, network.Cut, stage, "acquired"))
				require.NoError(t, lock.Lock(me))
				assert.Len(t, w.Fields(testbed.Key), 1)
				token := tokenNow(w, t, lock, me)
				assert.Greater(t, token, first)
				count, err := w.Get(testbed.TokenKey)
				require.NoError(t, err)
				assert.Equal(t, count, fmt.Sprint(token))
				require.NoError(t, lock.Unlock(me))
				assert.Equal(t, token+1, testbed.OneSection(me, t, lock))
				time.Sleep(time.Minute)
				assert.Equal(t, []string{testbed.TokenKey}, w.Keys())
			})
		})
	}
}

func TestAnAnswerWithoutATokenIsNoGrantOfAFencedLock(t *testing.T) {
	for _, reply := range []string{"_\r\n", "$1\r\nx\r\n", "$2\r\n-1\r\n", "$1\r\n0\r\n", ":5\r\n", "*0\r\n"} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			p, me := w.NewClient(), w.Caller()
			lock := p.NewFencedLock(testbed.Key)
			p.Net.Rule(network.Nth(1, network.Replace(reply), network.Reply, "EVALSHA", "EVAL"))
			ok, err := lock.TryLock(me)
			require.Error(t, err, "%q", reply)
			assert.False(t, ok)
			time.Sleep(time.Minute)
			assert.False(t, w.Exists(testbed.Key), "the possible grant was not released")
		})
	}
}

// Both kinds of lock wait over one subscription.
func TestACrowdAtALockDoesNotStarveTheFencedLockOfThatNameInItsClient(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		fenced, until, me := p.NewFencedLock(testbed.Key), time.Now().Add(time.Second), w.Caller()
		sections := p.Crowd(w, until)
		n := 0
		for time.Now().Before(until) {
			require.NoError(t, fenced.Lock(me))
			n++
			require.NoError(t, fenced.Unlock(me))
		}
		assert.Greater(t, n, sections()/100)
	})
}
