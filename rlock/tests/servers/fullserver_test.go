package servers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALockWhoseKeyIsEvictedIsLostAndItsHolderIsNotified(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	here, there := s.NewLock(testbed.WithLease(time.Second)), s.NewLock()
	hold := testbed.Take(t, s.Ctx, here)
	s.Configure("maxmemory-policy", "allkeys-random")
	s.Configure("maxmemory", "1")
	require.Eventually(t, func() bool { return s.Number("EXISTS", testbed.Key) == 0 }, testbed.Hang, time.Millisecond)
	s.Configure("maxmemory", "0")
	testbed.RequireLoss(t, s.Ctx, hold)
	assert.True(t, s.IsFree(there))
}

// New says so. Clients that are connected go on: a waiter without a connection for its subscription polls, and one that has
// lost its connection comes back when there is room, and still holds its locks if that was in time.
func TestAServerThatTakesNoMoreClients(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	here, there := testbed.Dial(t, s.Options()), testbed.Dial(t, s.Options())
	hold := testbed.Take(t, s.Ctx, here.NewLock(testbed.Key))
	s.Configure("maxclients", s.Info(s.Outside, "clients")["connected_clients"])
	client, err := rlock.New(rlock.Config{Redis: s.Options(), Logger: testbed.Quiet})
	require.ErrorContains(t, err, "maxclients")
	assert.Nil(t, client)
	require.ErrorIs(t, testbed.ErrorOf(there.NewLock(testbed.Key).Acquire(s.Ctx, rlock.WithWait(0))), rlock.ErrNotAcquired)
	waiter := testbed.Start(func() error { return there.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing) })
	s.AwaitWaiters(1, testbed.Key)

	s.Configure("maxclients", "1")
	s.CloseConnections()
	limited, cancel := context.WithTimeout(s.Ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, here.NewLock("other").Lock(limited), context.DeadlineExceeded)
	assert.True(t, hold.Valid())
	s.Configure("maxclients", "100")
	require.NoError(t, here.NewLock("other").Do(s.Ctx, testbed.Nothing))
	require.NoError(t, hold.Release(s.Ctx))
	require.NoError(t, s.Await(waiter))
	s.Wakes(here, there, testbed.Plain)
}

// A server that is full and may not evict keys (maxmemory-policy noeviction) refuses HSET, SET,
// ZADD and INCRBY, but not those of a script that has written before. It may refuse a lock that
// is new. It must not refuse one that is held, or that is granted to a waiter.

// A fullServer is a server that can be filled, with two clients.
type fullServer struct {
	*testbed.Site
	here, there *rlock.Client
	lock        func(*rlock.Client) *rlock.Lock
	reads       bool
	mode        string // what the queue's key ends with
}

func (s *fullServer) acquire(c *rlock.Client, owner rlock.Owner, options ...rlock.AcquireOption) *rlock.Hold {
	s.T.Helper()
	hold, err := s.lock(c).Acquire(rlock.WithOwner(s.Ctx, owner), append([]rlock.AcquireOption{rlock.WithWait(0)}, options...)...)
	require.NoError(s.T, err)
	return hold
}

func (s *fullServer) release(hold *rlock.Hold) {
	s.T.Helper()
	require.NoError(s.T, hold.Release(s.Ctx))
}

// wait begins to wait for the lock. The hold comes over the channel.
func (s *fullServer) wait(c *rlock.Client) <-chan *rlock.Hold {
	s.T.Helper()
	ctx, queued := testbed.Queueing(rlock.WithOwner(s.Ctx, rlock.NewOwner()))
	holds := make(chan *rlock.Hold, 1)
	go func() {
		hold, err := s.lock(c).Acquire(ctx)
		assert.NoError(s.T, err)
		holds <- hold
	}()
	<-queued
	return holds
}

// awaitTicket returns when a ticket of the client is in the queue.
func (s *fullServer) awaitTicket(c *rlock.Client) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		members, err := s.Do("ZRANGEBYSCORE", testbed.Queue+s.mode, "1", "+inf").AsStrSlice()
		return err == nil && strings.Contains(strings.Join(members, " "), inspect.Of(c).ID())
	}, testbed.Hang, time.Millisecond)
}

func (s *fullServer) granted(holds <-chan *rlock.Hold) *rlock.Hold {
	s.T.Helper()
	select {
	case hold := <-holds:
		require.NotNil(s.T, hold)
		return hold
	case <-s.Ctx.Done():
		require.FailNow(s.T, "the waiter is not granted the lock")
		return nil
	}
}

// outlives returns when the hold was renewed by commands that were sent from now on.
func (s *fullServer) outlives(hold *rlock.Hold) {
	s.T.Helper()
	renewed := time.Now().Add(fullLease)
	require.Eventually(s.T, func() bool { return hold.ValidUntil().After(renewed) || context.Cause(hold.Context()) != nil }, testbed.Hang, time.Millisecond)
	require.NoError(s.T, context.Cause(hold.Context()))
}

// waiting returns what a waiter elsewhere does when the lock of a holder here is given up.
func waiting(giveUp func(s *fullServer, hold *rlock.Hold)) func(s *fullServer) func() *rlock.Hold {
	return func(s *fullServer) func() *rlock.Hold {
		holder := *s
		if s.reads { // behind a writer
			holder.lock = testbed.LocksOf()["write"]
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
			s.Number("DEL", testbed.Key)
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
		"a writer goes on reading": {reads, func(s *fullServer) func() *rlock.Hold {
			me := rlock.NewOwner()
			write, err := s.here.NewReadWriteLock(testbed.Key).Write().Acquire(rlock.WithOwner(s.Ctx, me), rlock.WithWait(0))
			require.NoError(s.T, err)
			read := s.acquire(s.here, me)
			return func() *rlock.Hold {
				s.release(write)
				return read
			}
		}},
	}
	for name, lock := range testbed.LocksOf() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Standalone(t, "--maxmemory-policy", "noeviction")
			for operation, op := range operations {
				if !slices.Contains(op.kinds, name) {
					continue
				}
				t.Run(operation, func(t *testing.T) {
					s := &fullServer{Site: testbed.At(t, server), lock: lock, reads: name == "read", mode: testbed.ModeOf(name)}
					config := func(c *rlock.Config) { c.Lease, c.Advanced.HandoffLimit = fullLease, -1 }
					s.here, s.there = s.NewClient(config), s.NewClient(config)
					s.release(s.acquire(s.here, rlock.NewOwner()))
					s.AwaitListeners(1, testbed.Plain, testbed.OwnChannels+inspect.Of(s.here).ID())
					act := op.prepare(s)
					s.Configure("maxmemory", "1")
					require.ErrorContains(t, testbed.ErrorOf(s.here.NewLock("new").TryLock(s.Ctx)), "OOM")
					hold := act()
					s.outlives(hold)
					s.release(hold)
					assert.Zero(t, s.Number("EXISTS", testbed.Key))
					s.Configure("maxmemory", "0")
					s.Number("DEL", testbed.TokenKey)
				})
			}
		})
	}
}

// fullLease is so short that renewals come soon, and so long that a busy machine loses none.
const fullLease = 3 * time.Second
