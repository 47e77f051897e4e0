package rlock_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// No kind of lock needs a subscription: a waiter without one polls.
func TestWaitersWhoseChannelIsRefusedPoll(t *testing.T) {
	for _, reply := range []string{
		"ERR unknown command 'SUBSCRIBE', with args beginning with: ",
		"NOPERM this user has no permissions to run the 'subscribe' command",
		"NOPERM this user has no permissions to access the 'rlock_turn:...' channel",
	} {
		t.Run(reply, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				holder, p, me, them := w.client(), w.client(), w.caller(), w.caller()
				w.answer(func(command string, _ ...string) string {
					if command == "subscribe" {
						return reply
					}
					return ""
				})
				for _, lock := range []func(*testClient) locker{
					func(p *testClient) locker { return p.NewLock(key) },
					func(p *testClient) locker { return p.NewFairLock(key) },
					func(p *testClient) locker { return p.NewReadWriteLock(key).Write() },
				} {
					require.NoError(t, lock(holder).Lock(me))
					waiter := start(func() error { return lock(p).Lock(them) })
					require.True(t, pending(waiter))
					require.NoError(t, lock(holder).Unlock(me))
					within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-waiter) })
					require.NoError(t, lock(p).Unlock(them))
				}
			})
		})
	}
}

// hangsUp returns a dial function to the world's server. While the flag is set, each
// connection is closed after the client's first bytes, as a full server does.
func (w *world) hangsUp() (dial func() (net.Conn, error), full *atomic.Bool) {
	full = new(atomic.Bool)
	return func() (net.Conn, error) {
		if !full.Load() {
			return w.Dial()
		}
		here, there := net.Pipe()
		go func() {
			_, _ = there.Read(make([]byte, 1<<10))
			_, _ = there.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = there.Close()
		}()
		return here, nil
	}, full
}

func TestWaitersWithoutAConnectionForSubscriptionsPollAndLogItOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dial, full := w.hangsUp()
		p, other, them, me := newTestClient(t, dial), w.client(), w.caller(), w.caller()
		require.NoError(t, other.NewLock(key).Lock(them))
		_, err := p.NewLock(key).IsLocked(me) // the client is connected
		require.NoError(t, err)
		full.Store(true)
		result := start(func() error { return p.NewLock(key).Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, pending(result))
		assert.Equal(t, 1, p.logged("the server ends connections for subscriptions"))
		assert.Equal(t, 1, p.logged("max number of clients reached"))
		require.NoError(t, other.NewLock(key).Unlock(them))
		within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(key).Unlock(me))
	})
}

// The waiters poll often enough.
func TestAFairWaiterWithoutASubscriptionKeepsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dial, full := w.hangsUp()
		p, other, them, me := newTestClient(t, dial), w.client(), w.caller(), w.caller()
		require.NoError(t, other.NewFairLock(key).Lock(them))
		_, err := p.NewFairLock(key).IsLocked(me)
		require.NoError(t, err)
		full.Store(true)
		result := start(func() error { return p.NewFairLock(key).Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, pending(result))
		full.Store(false)
		require.NoError(t, other.NewFairLock(key).Unlock(them))
		require.NoError(t, <-result)
		require.NoError(t, p.NewFairLock(key).Unlock(me))
	})
}

// A server without memory for new keys grants no lock, not even to a writer.
func TestAServerThatIsFullOfDataGrantsNoKindOfLock(t *testing.T) {
	s := at(t, redistest.Standalone(t, "--maxmemory-policy", "noeviction"))
	client := s.client(withLease(time.Second))
	for _, lock := range []locker{
		client.NewLock(key), client.NewFencedLock(key), client.NewFairLock(key),
		client.NewReadWriteLock(key).Read(), client.NewReadWriteLock(key).Write(),
	} {
		s.configure("maxmemory", "1")
		ok, err := lock.TryLock(s.ctx)
		assert.ErrorContains(t, err, "OOM", "%T", lock)
		assert.False(t, ok)
		if ok {
			require.NoError(t, lock.Unlock(s.ctx))
		}
		s.configure("maxmemory", "0")
	}
}

// The key is deleted by then, and a retry could not notify the waiters.
func TestAReleaseThatCannotBePublishedIsNotRetried(t *testing.T) {
	s := at(t, redistest.Standalone(t, "--rename-command", "PUBLISH", ""))
	client := s.client()
	for _, lock := range []locker{
		client.NewLock(key), client.NewFencedLock(key), client.NewFairLock(key),
		client.NewReadWriteLock(key).Read(), client.NewReadWriteLock(key).Write(),
	} {
		require.NoError(t, lock.Lock(s.ctx))
		err := lock.Unlock(s.ctx)
		assert.ErrorIs(t, err, rlock.ErrUnsupported, "%T", lock)
		assert.NotErrorIs(t, err, rlock.ErrUnconfirmed, "%T", lock)
		assert.ErrorContains(t, err, "it is released, but the waiters were not told")
		assert.Zero(t, s.number("EXISTS", key))
	}
	s.number("DEL", tokenKey)
	s.number("DEL", queue)
}

// The release carries the ticket of the next local waiter, and the queue's key is of another
// type.
func TestAReleaseThatCarriesATicketFreesTheLockWhateverTheQueueIs(t *testing.T) {
	for name, lock := range map[string]func(*testClient) locker{
		"plain": func(p *testClient) locker { return p.NewLock(key) },
		"write": func(p *testClient) locker { return p.NewReadWriteLock(key).Write() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				queues := queue
				if name == "write" {
					queues += "rw"
				}
				here, there, me, us, them := w.client(), w.client(), w.caller(), w.caller(), w.caller()
				require.NoError(t, lock(there).Lock(them))
				waited := start(func() error { return lock(here).Lock(me) }) // subscribes as well
				require.True(t, pending(waited))
				require.NoError(t, lock(there).Unlock(them))
				require.NoError(t, <-waited)
				elsewhere := start(func() error { return lock(there).Lock(them) })
				next := start(func() error { return lock(here).Lock(us) })
				time.Sleep(time.Second) // the other waiters have waited for a release
				require.True(t, pending(next))
				w.Del(queues)
				require.NoError(t, w.Set(queues, "no queue"))
				err := lock(here).Unlock(me)
				require.ErrorContains(t, err, "it is released")
				assert.ErrorIs(t, err, rlock.ErrWrongType)
				assert.False(t, w.Exists(key))
				assert.ErrorIs(t, <-next, rlock.ErrWrongType)
				assert.ErrorIs(t, <-elsewhere, rlock.ErrWrongType)
				w.Del(queues)
			})
		})
	}
}

// A release frees the lock, and cannot grant it to the first ticket. The one behind looks at once, and has
// the error, in place of waiting for the time of its next look.
func TestARefusedGrantWakesTheTicketBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder, first, next := w.client().NewFencedLock(key), w.client().NewFencedLock(key), w.client().NewFencedLock(key)
		me, them, others := w.caller(), w.caller(), w.caller()
		require.NoError(t, holder.Lock(me))
		refused := start(func() error { return first.Lock(them) })
		require.True(t, pending(refused))
		time.Sleep(time.Second)
		waits := start(func() error { return next.Lock(others) })
		require.True(t, pending(waits))
		time.Sleep(100 * time.Millisecond) // its next look is in about two seconds
		require.NoError(t, w.Set(tokenKey, "no number"))
		within(t, 0, 100*time.Millisecond, func() {
			assert.ErrorContains(t, holder.Unlock(me), "token counter")
			assert.ErrorContains(t, <-waits, "token counter")
		})
		assert.ErrorContains(t, <-refused, "token counter")
	})
}

// A server at its limits. (TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked has a full
// server that may not evict keys.)

func (s *site) configure(parameter, value string) {
	s.t.Helper()
	set := s.outside.B().ConfigSet().ParameterValue().ParameterValue(parameter, value).Build()
	require.NoError(s.t, s.outside.Do(s.ctx, set).Error())
}

// closeConnections closes all connections but that of the outsider.
func (s *site) closeConnections() {
	s.t.Helper()
	for _, kind := range []string{"normal", "pubsub"} {
		require.NoError(s.t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Build()).Error())
	}
}

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

// outlives returns when the hold was renewed by commands that were sent from now on.
func (s *fullServer) outlives(hold *rlock.Hold) {
	s.t.Helper()
	renewed := time.Now().Add(fullLease)
	require.Eventually(s.t, func() bool { return hold.ValidUntil().After(renewed) || context.Cause(hold.Context()) != nil }, hang, time.Millisecond)
	require.NoError(s.t, context.Cause(hold.Context()))
}

// slowScript runs a script that takes so long on the primaries, and returns when it has ended.
// They answer BUSY to other commands meanwhile.
func (s *site) slowScript(d time.Duration) {
	s.t.Helper()
	const script = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
		local ends = now() + ARGV[1]
		repeat until now() >= ends`
	var all sync.WaitGroup
	for _, node := range s.Nodes() {
		if s.role(node)["role"] != "master" {
			continue
		}
		opt := node.Options()
		opt.ForceSingleClient, opt.DisableRetry, opt.ConnWriteTimeout = true, true, hang
		client, err := rueidis.NewClient(opt)
		require.NoError(s.t, err)
		defer client.Close()
		all.Go(func() {
			eval := client.B().Arbitrary("EVAL", script, "0", fmt.Sprint(d.Milliseconds())).Blocking()
			if err := client.Do(s.ctx, eval).Error(); !rueidis.IsRedisNil(err) {
				assert.NoError(s.t, err)
			}
		})
	}
	all.Wait()
}

// A script of another program runs for longer than a contended channel stays subscribed. rueidis
// panics in a goroutine of its own when an UNSUBSCRIBE is answered with BUSY, which would end the
// test's process as well.
func TestASlowScriptOfAnotherProgramEndsNoProcess(t *testing.T) {
	t.Parallel() // it mostly waits
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindCluster:    redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := at(t, calm(start(t, "--lua-time-limit", "100")))
			var clients []*rlock.Client
			short := withLease(2 * time.Second) // a release that is refused is tried again after a quarter of it
			for _, resp2 := range []bool{false, true} {
				own := func(c *rlock.Config) { c.Redis.AlwaysRESP2 = resp2 }
				shared := func(c *rlock.Config) {
					opt := s.Options()
					opt.AlwaysRESP2 = resp2
					client, err := rueidis.NewClient(opt)
					require.NoError(t, err)
					t.Cleanup(client.Close)
					c.Redis, c.Client = rueidis.ClientOption{}, client
				}
				waits := func(c *rlock.Config) { c.SyncReplicas = replicasOf[kind] }
				clients = append(clients, s.client(own, short), s.client(own, short, waits), s.client(shared, short), s.client(shared, short, waits))
			}
			for _, client := range clients { // each waits for each other: all channels are subscribed
				lock := clients[0].NewLock(key)
				if client == clients[0] {
					lock = clients[1].NewLock(key)
				}
				hold, err := lock.Acquire(s.ctx)
				require.NoError(t, err)
				got := background(func() error {
					hold, err := client.NewLock(key).Acquire(s.ctx)
					if err == nil {
						err = hold.Release(s.ctx)
					}
					return err
				})
				s.awaitWaiters(1, key)
				require.NoError(t, hold.Release(s.ctx))
				require.NoError(t, s.await(got))
			}

			ctx, stop := context.WithCancel(s.ctx)
			var all sync.WaitGroup
			for _, client := range clients { // a connection for CLIENT LIST, and for WAIT, is given back all the time
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = client.Inspect(ctx, key)
						time.Sleep(10 * time.Millisecond)
						if hold, err := client.NewLock(key).Acquire(ctx, rlock.WithWait(10*time.Millisecond)); err == nil {
							_ = hold.Release(s.ctx)
						}
					}
				})
			}
			s.slowScript(7 * time.Second)
			stop()
			all.Wait()
			for _, client := range clients {
				hold, err := client.NewLock(key).Acquire(s.ctx)
				require.NoError(t, err)
				require.NoError(t, hold.Release(s.ctx))
			}
		})
	}
}
