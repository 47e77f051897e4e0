package losses_test

import (
	"context"
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

// The command that set the lease last counts: a compound lock sets the lease again when the
// acquires of its parts took long.
func TestValidityIsCountedFromBeforeTheSend(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		w.Settle()
		p.Networks(func(n *network.Network) { n.Rule(testbed.EveryScript(network.Hold, network.Reply)) })
		var hold *rlock.Hold
		result := testbed.Start(func() (err error) {
			hold, err = lock.Acquire(me, rlock.WithLease(10*time.Second))
			return err
		})
		time.Sleep(1500 * time.Millisecond)
		p.Heal()
		require.NoError(t, <-result)
		assert.LessOrEqual(t, time.Until(hold.ValidUntil()), w.Remaining(), "the hold must end before the lease in Redis")
		synctest.Wait()
		ends := time.Now().Add(w.Remaining())
		drift := 100*time.Millisecond + 2*time.Millisecond + 10*time.Millisecond
		assert.WithinDuration(t, ends.Add(-drift), hold.ValidUntil(), time.Millisecond)
		<-hold.Context().Done()
		assert.True(t, time.Now().Before(ends))
	})
}

// The bytes are held back in both directions: only the clock tells the holder that something
// is wrong.
func TestALossIsReportedBeforeRedisCanGrantTheLockToAnother(t *testing.T) {
	redistest.Slow(t)
	for name, fail := range map[string]func(*testbed.Peer){
		"silent": (*testbed.Peer).Silence,
		"replies lost": func(p *testbed.Peer) {
			p.Networks(func(n *network.Network) { n.Rule(testbed.EveryScript(network.Cut, network.Request)) })
		},
	} {
		if testbed.Fewer() && name != "replies lost" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
				p, other := w.NewProcess(), w.NewProcess()
				owner := rlock.WithOwner(w.Ctx, rlock.NewOwner())
				lock := p.NewLock(testbed.Key)
				hold := testbed.Take(t, owner, lock)
				require.NoError(t, lock.Lock(owner))
				time.Sleep(15 * time.Second)

				fail(p)
				granted := make(chan time.Time, 1)
				them := w.Caller()
				taken := testbed.Start(func() error {
					err := other.NewLock(testbed.Key).Rival.Lock(them)
					granted <- time.Now()
					return err
				})
				<-hold.Context().Done()
				lost := time.Now()
				assert.False(t, lock.IsHeld(owner))
				assert.Zero(t, lock.HoldCount(owner))
				assert.False(t, hold.Valid())
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)

				require.NoError(t, <-taken)
				assert.True(t, lost.Before(<-granted))
				assert.Positive(t, p.Logged("lock lost"))
				require.NoError(t, other.NewLock(testbed.Key).Rival.Unlock(them))
			})
		})
	}
}

// The watchdog checks leases at the pace of its wheel, and not at all while the process is
// stopped; Valid and IsHeld are exact to the nanosecond.
func TestALostHoldIsInvalidByTheClockAlone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		p.Net.Rule(network.Silence)
		until := hold.ValidUntil()
		time.Sleep(time.Until(until) - time.Nanosecond)
		assert.True(t, hold.Valid())
		time.Sleep(time.Nanosecond)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.True(t, w.Exists(testbed.Key), "the hold must end long before the lease in Redis")
	})
}

// Redis still counts the dead clients among the subscribers, and grants each the lock for a
// claim of two seconds.
func TestADeadWaiterCostsOneClaim(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder := w.NewClient(func(c *rlock.Config) { c.Advanced.HandoffLimit = -1 })
		me, next, last := w.Caller(), w.Caller(), w.Caller()
		lock := holder.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		for range 3 {
			dead := w.NewClient()
			waits := testbed.Waits(t, func() error { return dead.NewLock(testbed.Key).Lock(w.Ctx) })
			dead.Net.Rule(network.Silence)
			defer func() { dead.Close(); <-waits }()
		}
		alive := w.NewClient()
		there := testbed.Waits(t, func() error { return alive.NewLock(testbed.Key).Lock(next) })
		here := testbed.Waits(t, func() error { return lock.Lock(last) })
		time.Sleep(11 * time.Second) // a renewal, which finds that others wait

		testbed.Within(t, 6*time.Second, 7*time.Second, func() {
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-there)
		})
		require.True(t, testbed.Pending(here))
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, alive.NewLock(testbed.Key).Unlock(next))
			require.NoError(t, <-here)
		})
		require.NoError(t, lock.Unlock(last))
	})
}
