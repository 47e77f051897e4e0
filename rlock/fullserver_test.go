package rlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALockWhoseKeyIsEvictedIsLostAndItsHolderIsNotified(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := s.lock(withLease(time.Second)), s.lock()
	hold, err := here.Acquire(s.ctx)
	require.NoError(t, err)
	s.configure("maxmemory-policy", "allkeys-random")
	s.configure("maxmemory", "1")
	require.Eventually(t, func() bool { return s.number("EXISTS", key) == 0 }, hang, time.Millisecond)
	s.configure("maxmemory", "0")
	select {
	case <-hold.Context().Done():
	case <-s.ctx.Done():
		require.FailNow(t, "the holder was not notified")
	}
	assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
	assert.True(t, s.isFree(there))
}

func TestAServerThatTakesNoMoreClientsIsTheErrorOfNew(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	s.configure("maxclients", "1")
	for range 10 {
		client, err := rlock.New(rlock.Config{Redis: s.Options(), Logger: quiet})
		require.Error(t, err)
		assert.ErrorContains(t, err, "maxclients")
		assert.Nil(t, client)
	}
	s.configure("maxclients", "100")
	require.True(t, s.isFree(s.lock()))
}

// Connected clients go on. A waiter without a connection for its subscription polls.
func TestAServerThatTakesNoMoreClientsServesThoseItHas(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := s.lock(), s.lock()
	require.NoError(t, here.Lock(s.ctx))
	s.configure("maxclients", s.info(s.outside, "clients")["connected_clients"])
	require.False(t, s.isFree(there))
	ctx, queued := queueing(s.ctx)
	waiter := background(func() error { return there.Do(ctx, func(context.Context) error { return nil }) })
	<-queued
	require.NoError(t, here.Unlock(s.ctx))
	require.NoError(t, s.await(waiter))
	s.configure("maxclients", "100")
}

// A client that has lost its connection reconnects when there is room, and still holds its
// locks if that was in time.
func TestAClientThatIsKeptOutComesBackWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := dial(t, s.Options()), dial(t, s.Options())
	hold, err := here.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	waiter := background(func() error {
		return there.NewLock(key).Do(s.ctx, func(context.Context) error { return nil })
	})
	s.awaitWaiters(1, key)

	s.configure("maxclients", "1")
	s.closeConnections()
	limited, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, here.NewLock("other").Lock(limited), context.DeadlineExceeded)
	assert.True(t, hold.Valid())

	s.configure("maxclients", "100")
	s.awaitWaiters(1, key)
	require.NoError(t, here.NewLock("other").Lock(s.ctx))
	require.NoError(t, here.NewLock("other").Unlock(s.ctx))
	require.NoError(t, hold.Release(s.ctx))
	require.NoError(t, s.await(waiter))
	s.wakes(here, there, plain)
}

// A server that is full and may not evict keys (maxmemory-policy noeviction) refuses HSET, SET,
// ZADD and INCRBY, but not those of a script that has written before. It may refuse a lock that
// is new. It must not refuse one that is held, or that is granted to a waiter.

// A fullServer is a server that can be filled, with two clients.
type fullServer struct {
	*site
	here, there *rlock.Client
	lock        func(*rlock.Client) *rlock.Lock
	reads       bool
	mode        string // what the queue's key ends with
}

func (s *fullServer) acquire(c *rlock.Client, owner rlock.Owner, options ...rlock.AcquireOption) *rlock.Hold {
	s.t.Helper()
	hold, err := s.lock(c).Acquire(rlock.WithOwner(s.ctx, owner), append([]rlock.AcquireOption{rlock.WithWait(0)}, options...)...)
	require.NoError(s.t, err)
	return hold
}

func (s *fullServer) release(hold *rlock.Hold) {
	s.t.Helper()
	require.NoError(s.t, hold.Release(s.ctx))
}

// wait begins to wait for the lock. The hold comes over the channel.
func (s *fullServer) wait(c *rlock.Client) <-chan *rlock.Hold {
	s.t.Helper()
	ctx, queued := queueing(rlock.WithOwner(s.ctx, rlock.NewOwner()))
	holds := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := s.lock(c).Acquire(ctx)
		assert.NoError(s.t, err)
		holds <- hold
	}()
	<-queued
	return holds
}

// awaitTicket returns when a ticket of the client is in the queue.
func (s *fullServer) awaitTicket(c *rlock.Client) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		members, err := s.do("ZRANGEBYSCORE", queue+s.mode, "1", "+inf").AsStrSlice()
		return err == nil && strings.Contains(strings.Join(members, " "), c.ID())
	}, hang, time.Millisecond)
}

func (s *fullServer) granted(holds <-chan *rlock.Hold) *rlock.Hold {
	s.t.Helper()
	select {
	case hold := <-holds:
		require.NotNil(s.t, hold)
		return hold
	case <-s.ctx.Done():
		require.FailNow(s.t, "the waiter is not granted the lock")
		return nil
	}
}

// outlives returns when the hold was renewed by commands that were sent from now on.
func (s *fullServer) outlives(hold *rlock.Hold) {
	s.t.Helper()
	renewed := time.Now().Add(fullLease)
	require.Eventually(s.t, func() bool { return hold.ValidUntil().After(renewed) || context.Cause(hold.Context()) != nil }, hang, time.Millisecond)
	require.NoError(s.t, context.Cause(hold.Context()))
}

// waiting returns what a waiter elsewhere does when the lock of a holder here is given up.
func waiting(giveUp func(s *fullServer, hold *rlock.Hold)) func(s *fullServer) func() *rlock.Hold {
	return func(s *fullServer) func() *rlock.Hold {
		holder := *s
		if s.reads { // behind a writer
			holder.lock = func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() }
		}
		hold := holder.acquire(s.here, rlock.NewOwner())
		waiter := s.wait(s.there)
		s.awaitTicket(s.there)
		return func() *rlock.Hold {
			giveUp(s, hold)
			return s.granted(waiter)
		}
	}
}

func TestAFullServerLosesNoLock(t *testing.T) {
	all := []string{"plain", "fenced", "fair", "write", "read", "semaphore"}
	handedOff, reads := []string{"plain", "write"}, []string{"read"}
	kinds := map[string]struct {
		lock func(*rlock.Client) *rlock.Lock
		mode string
	}{
		"plain":     {func(c *rlock.Client) *rlock.Lock { return c.NewLock(key) }, ""},
		"fenced":    {func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(key) }, ""},
		"fair":      {func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(key) }, ""},
		"write":     {func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() }, "rw"},
		"read":      {func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Read() }, "rw"},
		"semaphore": {func(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(key, 1) }, "sem"},
	}
	// Each operation is prepared, and then done while the server is full. It returns the hold
	// that must outlast that.
	operations := map[string]struct {
		kinds   []string // that know the operation
		prepare func(s *fullServer) func() *rlock.Hold
	}{
		"it is renewed": {all, func(s *fullServer) func() *rlock.Hold {
			hold := s.acquire(s.here, rlock.NewOwner())
			return func() *rlock.Hold { return hold }
		}},
		"it is nested": {all, func(s *fullServer) func() *rlock.Hold {
			me := rlock.NewOwner()
			outer := s.acquire(s.here, me)
			return func() *rlock.Hold {
				inner := s.acquire(s.here, me)
				s.outlives(inner)
				s.release(inner)
				return outer
			}
		}},
		"it is handed off": {handedOff, func(s *fullServer) func() *rlock.Hold {
			hold := s.acquire(s.here, rlock.NewOwner())
			waiter := s.wait(s.here)
			return func() *rlock.Hold {
				s.release(hold)
				return s.granted(waiter)
			}
		}},
		"it is granted by a release": {all, waiting((*fullServer).release)},
		"it is granted by a look": {all, waiting(func(s *fullServer, _ *rlock.Hold) {
			s.number("DEL", key)
		})},
		"its release carries a ticket": {handedOff, func(s *fullServer) func() *rlock.Hold {
			hold := s.acquire(s.there, rlock.NewOwner())
			first := s.wait(s.here)
			s.awaitTicket(s.here)
			next := s.wait(s.here) // in its client, without a ticket
			s.release(hold)
			hold = s.granted(first)
			other := s.wait(s.there)
			s.awaitTicket(s.there)
			return func() *rlock.Hold {
				s.release(hold)
				s.release(s.granted(other))
				return s.granted(next)
			}
		}},
		"it is used again while it lingers": {handedOff, func(s *fullServer) func() *rlock.Hold {
			require.Eventually(s.t, func() bool { // the server knows a subscription a moment before its client
				s.release(s.acquire(s.here, rlock.NewOwner(), rlock.WithLinger(time.Hour)))
				return s.number("EXISTS", key) == 1
			}, hang, time.Millisecond, "it lingers")
			return func() *rlock.Hold { return s.acquire(s.here, rlock.NewOwner()) }
		}},
		"a reader joins": {reads, func(s *fullServer) func() *rlock.Hold {
			first := s.acquire(s.here, rlock.NewOwner())
			return func() *rlock.Hold {
				second := s.acquire(s.here, rlock.NewOwner())
				s.release(first)
				return second
			}
		}},
		"a writer goes on reading": {reads, func(s *fullServer) func() *rlock.Hold {
			me := rlock.NewOwner()
			write, err := s.here.NewReadWriteLock(key).Write().Acquire(rlock.WithOwner(s.ctx, me), rlock.WithWait(0))
			require.NoError(s.t, err)
			read := s.acquire(s.here, me)
			return func() *rlock.Hold {
				s.release(write)
				return read
			}
		}},
	}
	for operation, op := range operations {
		t.Run(operation, func(t *testing.T) {
			for _, name := range op.kinds {
				kind := kinds[name]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := &fullServer{site: at(t, redistest.Standalone(t, "--maxmemory-policy", "noeviction")), lock: kind.lock, reads: name == "read", mode: kind.mode}
					config := func(c *rlock.Config) { c.Lease, c.HandoffLimit = fullLease, -1 }
					s.here = s.client(config)
					s.there = s.client(config)
					s.release(s.acquire(s.here, rlock.NewOwner(), rlock.WithLinger(0)))
					s.awaitListeners(1, plain, ownChannels+s.here.ID())
					act := op.prepare(s)
					s.configure("maxmemory", "1")
					require.ErrorContains(t, s.do("HSET", "new", "field", "value").Error(), "OOM")
					hold := act()
					s.outlives(hold)
					s.release(hold)
					assert.Zero(t, s.number("EXISTS", key))
					s.number("DEL", tokenKey)
				})
			}
		})
	}
}

// fullLease is so short that renewals come soon, and so long that a busy machine loses none.
const fullLease = 3 * time.Second
