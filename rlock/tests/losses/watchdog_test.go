package losses_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheWatchdogKeepsALockForAnHour(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		for range w.Times(testbed.Rounds(3600)) {
			time.Sleep(time.Second)
			require.GreaterOrEqual(t, w.Remaining(), 20*time.Second-50*time.Millisecond, "renewed at a third")
			require.True(t, lock.IsHeld(me))
		}
		require.NoError(t, lock.Unlock(me))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	testbed.EachBubble(t, map[string]func(*testbed.World, *testbed.Client){
		"cut":    func(_ *testbed.World, p *testbed.Client) { p.Net.Refuse() },
		"silent": func(_ *testbed.World, p *testbed.Client) { p.Net.Rule(network.Silence) },
		"loading": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("LOADING Redis is loading the dataset in memory")
		},
		"read only": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("READONLY You can't write against a read only replica.")
		},
	}, func(t *testing.T, w *testbed.World, fail func(*testbed.World, *testbed.Client)) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(9 * time.Second)
		fail(w, p)
		time.Sleep(18 * time.Second) // the renewal was due 17 s ago
		w.AnswerScripts("")
		p.Net.Heal()
		time.Sleep(time.Second + 50*time.Millisecond)
		assert.GreaterOrEqual(t, w.Remaining(testbed.Key), 28*time.Second, "a failed renewal is retried after a second at most")
		assert.True(t, lock.IsHeld(me))
		require.NoError(t, lock.Unlock(me))
		assert.Zero(t, p.Logged("lock lost"))
	})
}

func TestAfterUnlockNothingIsRenewedEver(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		for range w.Times(testbed.Rounds(50)) {
			require.NoError(t, lock.Lock(me))
			require.NoError(t, lock.Lock(me)) // the mirror of the second level may still be in flight when both levels are unlocked
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, lock.Unlock(me))
			w.Settle()
			sent := p.Scripts()
			time.Sleep(time.Minute)
			require.Empty(t, w.KeysLeft())
			require.Equal(t, sent, p.Scripts(), "a mirror was sent after Unlock")
		}
	})
}

// One lock that cannot be renewed does not affect the others, though they share a call.
func TestALockThatCannotBeRenewedAffectsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	s := testbed.At(t, redistest.Standalone(t, "--save", ""))
	client, me := s.NewClient(testbed.WithLease(lease)), rlock.WithOwner(s.Ctx, rlock.NewOwner())
	s.Ctx = me
	var holds []*rlock.Hold
	for _, name := range []string{"odd", "gone", "even:0", "even:1", "even:2", "even:3"} {
		holds = append(holds, testbed.Take(t, me, client.NewLock(name)))
	}
	s.Number("DEL", "gone")
	s.Admin("ACL", "SETUSER", "default", "resetkeys", "~gone", "~even:*", "~redisson_lock__channel:*")
	renewed := time.Now().Add(lease)
	for _, hold := range holds[2:] {
		require.Eventually(t, func() bool { return hold.ValidUntil().After(renewed) }, testbed.Hang, time.Millisecond)
	}
	<-holds[1].Context().Done()
	assert.NoError(t, context.Cause(holds[0].Context()), "an error is not a loss")
	s.Admin("ACL", "SETUSER", "default", "allkeys")
	require.Eventually(t, func() bool { return holds[0].ValidUntil().After(renewed) }, testbed.Hang, time.Millisecond)
	for i, hold := range holds {
		assert.Equal(t, i == 1, errors.Is(hold.Release(me), rlock.ErrLost))
	}
}

func TestHeldLocksCostNoGoroutine(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		require.NoError(t, p.NewLock("first").Lock(me))
		synctest.Wait()
		before := runtime.NumGoroutine()
		for n := range 1000 {
			require.NoError(t, p.NewLock(string(rune('a'+n))).Lock(me))
		}
		time.Sleep(time.Minute)
		assert.Less(t, runtime.NumGoroutine(), before+100)
	})
}

func TestASlowNetworkLosesNoLock(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		p.Net.SetRoundTrip(1500 * time.Millisecond)
		hold := testbed.Take(t, me, p.NewLock(testbed.Key))
		for range 10 {
			time.Sleep(time.Minute)
			require.Greater(t, time.Until(hold.ValidUntil()), 10*time.Second)
		}
		require.NoError(t, hold.Release(me))
	})
}
