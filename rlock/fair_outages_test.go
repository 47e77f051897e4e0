package rlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redis stands still for a while, and loses nothing: the answers are late, and those that a client has given up do not
// come. Each waiter keeps its place.
func TestAStallOfRedisKeepsTheOrderOfAFairLock(t *testing.T) {
	t.Parallel()
	pauses := []time.Duration{2500 * time.Millisecond, 3 * time.Second, 4 * time.Second}
	if *long {
		pauses = append(pauses, 6*time.Second, 8*time.Second, 16*time.Second)
	}
	for _, pause := range pauses {
		for _, after := range []time.Duration{0, 300 * time.Millisecond, 1900 * time.Millisecond} {
			t.Run(pause.String()+" after "+after.String(), func(t *testing.T) {
				t.Parallel()
				s := at(t, redistest.Standalone(t, "--maxclients", "1000"))
				keepsOrder(t, s, pause, after)
			})
		}
	}
}

// keepsOrder has waiters of several clients join one after the other, and Redis pause so long after that.
func keepsOrder(t *testing.T, s *site, pause, after time.Duration) {
	const clients, each = 3, 4
	short := withLease(2 * time.Second)
	holder := s.client(short).NewFairLock(key)
	me := rlock.WithOwner(s.ctx, rlock.NewOwner())
	require.NoError(t, holder.Lock(me))
	var locks [clients]*rlock.Lock
	for i := range locks {
		locks[i] = s.client(short).NewFairLock(key)
	}
	var order, want []int // protected by the lock
	var waiters sync.WaitGroup
	for who := range clients * each {
		want = append(want, who)
		waiters.Go(func() {
			them := rlock.WithOwner(s.ctx, rlock.NewOwner())
			if !assert.NoError(t, locks[who%clients].Lock(them)) {
				return
			}
			order = append(order, who)
			time.Sleep(20 * time.Millisecond)
			_ = locks[who%clients].Unlock(them) // which may be confirmed late
		})
		require.Eventually(t, func() bool {
			queued, err := s.Client(t).Do(s.ctx, s.Client(t).B().Zcard().Key("rlock_queue:{"+key+"}").Build()).AsInt64()
			return err == nil && int(queued) == len(want)
		}, hang, time.Millisecond)
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

// A crowd is clients that take a fair lock again and again.
type crowd struct {
	record
	s    *site
	stop context.CancelFunc
}

// sections returns the number of sections so far.
func (c *crowd) sections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}

// goesOn returns after that many more sections.
func (c *crowd) goesOn(more int) {
	c.s.t.Helper()
	want := c.sections() + more
	require.Eventually(c.s.t, func() bool { return c.sections() >= want }, hang, time.Millisecond)
}

// end stops the crowd and asserts that its queue is gone.
func (c *crowd) end() {
	c.s.t.Helper()
	c.stop()
	c.workers.Wait()
	require.Eventually(c.s.t, func() bool {
		left, err := c.s.do("EXISTS", queue).AsInt64()
		return err == nil && left == 0
	}, hang, time.Millisecond)
}

func (s *site) crowd(clients, each int, changes ...func(*rlock.Config)) *crowd {
	ctx, stop := context.WithCancel(s.ctx)
	c := &crowd{s: s, stop: stop}
	for range clients {
		client := s.client(changes...)
		for range each {
			c.workers.Go(func() {
				for ctx.Err() == nil {
					h, err := client.NewFairLock(key).Acquire(ctx)
					if err != nil {
						continue
					}
					from := time.Now()
					time.Sleep(time.Millisecond)
					to := time.Now()
					if !h.Valid() {
						to = from
					}
					c.mu.Lock()
					c.spans = append(c.spans, span{from, to})
					c.mu.Unlock()
					_ = h.Release(ctx)
				}
			})
		}
	}
	return c
}

func TestAFairLockOutlivesAFailover(t *testing.T) {
	t.Parallel()
	replicated(t, func(t *testing.T, s *site) {
		c := s.crowd(3, 3, withLease(3*time.Second))
		c.goesOn(100)
		s.Failover(key)
		c.goesOn(300)
		c.end()
	})
}
