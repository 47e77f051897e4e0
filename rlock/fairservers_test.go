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

// Fair locks on servers that are real: what they need of them, and what becomes of a
// queue in a failover.

// A crowd of clients takes a fair lock again and again.
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

// sections returns how many there were.
func (c *crowd) sections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}

// goesOn returns when there were so many sections more.
func (c *crowd) goesOn(more int) {
	c.s.t.Helper()
	want := c.sections() + more
	require.Eventually(c.s.t, func() bool { return c.sections() >= want }, hang, time.Millisecond)
}

// end ends the crowd and asserts that nothing is left of its queue.
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

func TestInAClusterWithPlainPubSubNobodyIsCounted(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	c := s.crowd(3, 3, func(c *rlock.Config) { c.PubSub = rlock.PubSubPlain })
	c.goesOn(300)
	c.end()
}

// With replicas to wait for, who is granted the lock asks for it all the same.
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
