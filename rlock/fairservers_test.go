package rlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// What a FairLock needs instead of, or beside, what a Lock does.
var fairRights = []string{
	"~orders:*", "~redisson_lock__channel:*", "~rlock_fair_queue:*", "&redisson_lock__channel:*", "&rlock_fair:*",
	"+evalsha", "+eval", "+hkeys", "+hset", "+del", "+pexpire", "+pttl",
	"+zadd", "+zrem", "+zrange", "+zscore", "+publish", "+subscribe",
}

// The right that is taken away is to the last command of the script: who comes then is
// put in the queue before.
func TestAFairWaiterWhoMayNotAskHowLongIsNotLeftInTheQueue(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	config := s.limited(append(fairRights, fairNiceties...)...)
	client, err := rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	lock, me := s.client().NewFairLock(key), rlock.WithOwner(s.ctx, rlock.NewOwner())
	require.NoError(t, lock.Lock(me))
	var waiters sync.WaitGroup
	defer waiters.Wait()
	comes := func() { assert.ErrorIs(t, client.NewFairLock(key).Lock(s.ctx), rlock.ErrNoPermission) }

	waiters.Go(comes)
	require.Eventually(t, func() bool { return s.number("ZCARD", queue) == 1 }, hang, time.Millisecond)
	s.admin("ACL", "SETUSER", config.Redis.Username, "-pttl")
	waiters.Go(comes)
	waiters.Wait()
	assert.Eventually(t, func() bool { return s.number("ZCARD", queue) == 0 }, 30*time.Second, time.Millisecond, "it ends by itself after a minute")
	require.NoError(t, lock.Unlock(me))
	assert.Zero(t, s.number("EXISTS", queue))
}

// What works without: a lock is mirrored only when it is held for longer.
var fairNiceties = []string{"+exists", "+hget", "+hdel", "+ping", "+unsubscribe", "+pubsub|numsub"}

func TestAFairWaiterIsToldOfARightThatIsMissing(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	rehearse := func(config rlock.Config) (failed []error) {
		here, err := rlock.New(config)
		require.NoError(t, err)
		defer here.Close()
		there, err := rlock.New(config)
		require.NoError(t, err)
		defer there.Close()
		var mu sync.Mutex
		do := func(err error) bool {
			if err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
			return err == nil
		}
		me := rlock.WithOwner(s.ctx, rlock.NewOwner())
		if !do(here.NewFairLock(key).Lock(me)) {
			return failed
		}
		var waiters sync.WaitGroup
		var left atomic.Int64 // of the waiters
		for range 2 {
			waiters.Go(func() {
				defer left.Add(1)
				h, err := there.NewFairLock(key).Acquire(s.ctx)
				if do(err) {
					do(h.Release(s.ctx))
				}
			})
		}
		require.Eventually(t, func() bool { // they queue, or fail to, or have had it: the first has lost it
			mu.Lock()
			defer mu.Unlock()
			queued, err := s.do("ZCARD", queue).AsInt64()
			return len(failed) > 0 || left.Load() == 2 || err == nil && queued == 2
		}, hang, time.Millisecond)
		do(here.NewFairLock(key).Unlock(me))
		waiters.Wait()
		return failed
	}
	all := append(fairRights, fairNiceties...)
	require.Empty(t, rehearse(s.limited(all...)))
	require.Empty(t, rehearse(s.limited(append(fairRights, "+hget")...)), "nobody is counted, so all are taken for alive")
	for i, right := range fairRights {
		t.Run("without "+right, func(t *testing.T) {
			s := s.in(t)
			s.forget()
			without := append(append([]string{}, all[:i]...), all[i+1:]...)
			failed := rehearse(s.limited(without...))
			assert.ErrorIs(t, errors.Join(failed...), rlock.ErrNoPermission)
			for _, err := range failed {
				told := errors.Is(err, rlock.ErrNoPermission) || errors.Is(err, rlock.ErrLost) // a claim is lost within two seconds
				assert.True(t, told, "%v", err)
			}
			assert.Eventually(t, func() bool { return s.number("EXISTS", key) == 0 }, hang, 10*time.Millisecond, "no lock is left for ever")
		})
	}
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
