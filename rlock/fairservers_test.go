package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// Fair locks on real servers: the rights that they need, and their queue in a failover.

// A crowd is clients that take a fair lock again and again.
type crowd struct {
	record
	s    *site
	stop context.CancelFunc
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

func TestInAClusterWithPlainPubSubNoSubscribersAreCounted(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	c := s.crowd(3, 3, func(c *rlock.Config) { c.PubSub = rlock.PubSubPlain })
	c.goesOn(300)
	c.end()
}

// With SyncReplicas a client that was granted the lock still waits for replicas.
func TestAFairGrantWaitsForReplicas(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	c := s.crowd(2, 3, func(c *rlock.Config) { c.SyncReplicas = 1 })
	c.goesOn(100)
	c.end()
}

func TestAQueueOfAnotherTypeIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	require.NoError(t, s.do("SET", queue, "somebody's").Error())
	lock := s.client().NewFairLock(key)
	require.ErrorIs(t, lock.Lock(s.ctx), rlock.ErrWrongType)
	got, err := s.do("GET", queue).ToString()
	require.NoError(t, err)
	assert.Equal(t, "somebody's", got)
	assert.Zero(t, s.number("EXISTS", key))
	s.number("DEL", queue)
}
