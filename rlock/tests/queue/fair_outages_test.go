package queue_test

import (
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redis stands still for a while, and loses nothing: the answers are late, and those that a client has given up do not
// come. Each waiter keeps its place.
func TestAStallOfRedisKeepsTheOrderOfAFairLock(t *testing.T) {
	t.Parallel()
	pauses := []time.Duration{2500 * time.Millisecond, 3 * time.Second, 4 * time.Second}
	if *testbed.Long {
		pauses = append(pauses, 6*time.Second, 8*time.Second, 16*time.Second)
	}
	for _, pause := range pauses {
		for _, after := range []time.Duration{0, 300 * time.Millisecond, 1900 * time.Millisecond} {
			t.Run(pause.String()+" after "+after.String(), func(t *testing.T) {
				t.Parallel()
				s := testbed.At(t, redistest.Standalone(t, "--maxclients", "1000"))
				keepsOrder(t, s, pause, after)
			})
		}
	}
}

// keepsOrder has waiters of several clients join one after the other, and Redis pause so long after that.
func keepsOrder(t *testing.T, s *testbed.Site, pause, after time.Duration) {
	const clients, each = 3, 4
	short := testbed.WithLease(2 * time.Second)
	holder := s.NewClient(short).NewFairLock(testbed.Key)
	me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
	require.NoError(t, holder.Lock(me))
	var locks [clients]*rlock.Lock
	for i := range locks {
		locks[i] = s.NewClient(short).NewFairLock(testbed.Key)
	}
	var order, want []int // protected by the lock
	var waiters sync.WaitGroup
	for who := range clients * each {
		want = append(want, who)
		waiters.Go(func() {
			them := rlock.WithOwner(s.Ctx, rlock.NewOwner())
			if !assert.NoError(t, locks[who%clients].Lock(them)) {
				return
			}
			order = append(order, who)
			time.Sleep(20 * time.Millisecond)
			_ = locks[who%clients].Unlock(them) // which may be confirmed late
		})
		require.Eventually(t, func() bool {
			queued, err := s.Client(t).Do(s.Ctx, s.Client(t).B().Zcard().Key("rlock_queue:{"+testbed.Key+"}").Build()).AsInt64()
			return err == nil && int(queued) == len(want)
		}, testbed.Hang, time.Millisecond)
	}
	time.Sleep(after)
	released := make(chan error, 1)
	s.Pause()
	go func() { released <- holder.Unlock(me) }()
	time.Sleep(pause)
	s.Resume()
	<-released
	waiters.Wait()
	assert.Equal(t, want, order)
}

// Fair locks on real servers: the rights that they need, and their queue in a failover.

func TestAFairLockOutlivesAFailover(t *testing.T) {
	t.Parallel()
	testbed.Replicated(t, func(t *testing.T, s *testbed.Site) {
		c := s.NewCrowd(3, 3, testbed.WithLease(3*time.Second))
		c.GoesOn(100)
		s.Failover(testbed.Key)
		c.GoesOn(300)
		c.End()
	})
}
