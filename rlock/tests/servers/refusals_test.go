package servers_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPermanentErrorIsReturnedAtOnce(t *testing.T) {
	for reply, want := range map[string]error{
		"NOPERM this user has no permissions to run the 'evalsha' command": rlock.ErrNoPermission,
		"NOAUTH Authentication required.":                                  rlock.ErrNoPermission,
		"ERR unknown command 'EVALSHA', with args beginning with: ":        rlock.ErrUnsupported,
		"WRONGPASS invalid username-password pair or user is disabled.":    rlock.ErrNoPermission,
		// In a script, Valkey 8 and later:
		"ERR Unknown command called from script script: f_ab, on @user_script:12.": rlock.ErrUnsupported,
		// Redis 7 and later:
		"ERR Unknown Redis command called from script script: f_ab, on @user_script:12.": rlock.ErrUnsupported,
		// Redis 6 and before:
		"ERR Error running script (call to f_ab): @user_script:12: WRONGTYPE Operation against a key":                            rlock.ErrWrongType,
		"ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: Unknown Redis command called from Lua script": rlock.ErrUnsupported,
	} {
		t.Run(reply, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
				w.AnswerScripts(reply)
				testbed.Within(t, 0, 0, func() {
					err := lock.Lock(me)
					require.ErrorIs(t, err, want)
					var redis *rueidis.RedisError
					if want == rlock.ErrWrongType {
						require.ErrorAs(t, err, &redis, "with the words of Redis behind its own")
						err = redis
					}
					require.ErrorContains(t, err, strings.TrimPrefix(reply, "ERR "), "with the words of Redis")
					require.ErrorIs(t, testbed.ErrorOf(lock.TryLockFor(me, time.Minute, 0)), want)
				})
				w.AnswerScripts("")
				require.NoError(t, lock.Do(me, testbed.Nothing))
			})
		})
	}
}

func TestATransientErrorIsRetriedOrReturnedByAnAttempt(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
		for _, reply := range testbed.Passing {
			w.AnswerScripts(reply)
			testbed.Within(t, 0, 0, func() {
				_, err := lock.Acquire(me, rlock.WithWait(0))
				require.ErrorContains(t, err, strings.TrimPrefix(reply, "ERR "))
				require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis did not say that the lock is held")
			})
			result := testbed.Start(func() error { return lock.Lock(me) })
			time.Sleep(10 * time.Second)
			require.True(t, testbed.Pending(result), reply)
			w.AnswerScripts("")
			testbed.Within(t, 0, 500*time.Millisecond, func() { require.NoError(t, <-result) })
			require.NoError(t, lock.Unlock(me))
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys())
	})
}

func TestOneLineAMinuteLogsWhyCallsAreNotServed(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		w.AnswerScripts(testbed.Passing[1])
		ctx, cancel := context.WithCancel(w.Ctx)
		var results []<-chan error
		for i := range 20 {
			results = append(results, testbed.Start(func() error { return p.NewLock(fmt.Sprint(i)).Lock(ctx) }))
		}
		time.Sleep(4900 * time.Millisecond)
		assert.Zero(t, p.Logged(testbed.Unserved), "a failover takes seconds")
		time.Sleep(time.Second)
		assert.Equal(t, 1, p.Logged(testbed.Unserved))
		assert.Equal(t, 2, p.Logged("READONLY"), "there, and where the client connects again")
		time.Sleep(time.Minute)
		assert.Equal(t, 2, p.Logged(testbed.Unserved))

		w.AnswerScripts("")
		time.Sleep(time.Second)
		cancel()
		testbed.Succeed(t, results...)
		require.NoError(t, p.NewLock(testbed.Key).Lock(w.Caller()))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 2, p.Logged(testbed.Unserved), "an old trouble is not told")
	})
}

func TestScriptsThatAreFlushedAllTheTimeAreSentAgain(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		admin := w.Outsider()
		var all sync.WaitGroup
		inside, sections := false, 0 // protected by the lock
		for range 3 {
			lock := w.NewClient(testbed.WithLease(time.Second)).NewLock(testbed.Key)
			for range 4 {
				me := w.Caller()
				all.Go(func() {
					for range 50 {
						assert.NoError(t, lock.Lock(me))
						assert.False(t, inside, "two sections overlap")
						inside = true
						time.Sleep(7 * time.Millisecond)
						inside = false
						sections++
						assert.NoError(t, lock.Unlock(me))
					}
				})
			}
		}
		for flushing := time.Now(); time.Since(flushing) < 4*time.Second; time.Sleep(10 * time.Millisecond) {
			require.NoError(t, admin.Do(w.Ctx, admin.B().ScriptFlush().Build()).Error())
		}
		all.Wait()
		assert.Equal(t, 600, sections)
		assert.Empty(t, w.Keys())
	})
}

func TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	client := testbed.Dial(t, s.Options())
	held := client.NewLock("held")
	require.NoError(t, held.Lock(s.Ctx))
	s.Configure("maxmemory", "1")
	require.ErrorContains(t, testbed.ErrorOf(client.NewLock(testbed.Key).TryLock(s.Ctx)), "OOM")
	scripts := func() (calls int) {
		_, err := fmt.Sscanf(s.Info(s.Outside, "commandstats")["cmdstat_evalsha"], "calls=%d", &calls)
		assert.NoError(t, err)
		return calls
	}
	before := scripts()
	waits, leave := context.WithCancel(s.Ctx)
	waiter := testbed.Start(func() error { return client.NewLock(testbed.Key).Lock(waits) })
	// Each failed acquire is followed by a release; that of TryLock may still be under way.
	require.Eventually(t, func() bool { return scripts() >= before+4 }, testbed.Hang, time.Millisecond, "it asks again")
	leave()
	err := redistest.Await(t, waiter)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, held.Unlock(s.Ctx))
	s.Configure("maxmemory", "0")
	require.NoError(t, client.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing))
}

// hangsUp returns a dial function to the world's server. While the flag is set, each
// connection is closed after the client's first bytes, as a full server does.
func hangsUp(w *testbed.World) (dial func() (net.Conn, error), full *atomic.Bool) {
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		dial, full := hangsUp(w)
		p, other, them, me := testbed.NewTestClient(t, dial), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(them))
		require.NoError(t, testbed.ErrorOf(p.NewLock(testbed.Key).IsLocked(me))) // the client is connected
		full.Store(true)
		result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, testbed.Pending(result))
		assert.Equal(t, 1, p.Logged("Redis ends the connections over which it notifies waiters"))
		assert.Equal(t, 1, p.Logged("max number of clients reached"))
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		testbed.Within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
	})
}

// The key is deleted by then, and a retry could not notify the waiters.
func TestAReleaseThatCannotBePublishedIsNotRetried(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t, "--rename-command", "PUBLISH", ""))
	client := s.NewClient()
	for kind, of := range testbed.LocksOf("plain", "fenced", "fair", "read", "write") {
		lock := of(client)
		require.NoError(t, lock.Lock(s.Ctx))
		err := lock.Unlock(s.Ctx)
		assert.ErrorIs(t, err, rlock.ErrUnsupported, kind)
		assert.NotErrorIs(t, err, rlock.ErrUnconfirmed, kind)
		assert.ErrorContains(t, err, "it is released, but the waiters were not told")
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	}
	s.Number("DEL", testbed.TokenKey)
	s.Number("DEL", testbed.Queue)
}

// A user without the right to Redisson's fair queue: a mirror that counts those that wait names its
// key, and may come before any step that does.
func TestAHandOffIsShownWithoutTheRightToRedissonsFairQueue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		refuseFairQueue(w)
		p, me, them := w.NewClient(), w.Caller(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		waits := testbed.Start(func() error { return lock.Lock(them) })
		synctest.Wait()
		before := w.Fields(testbed.Key)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-waits)
		synctest.Wait()
		assert.NotEqual(t, before, w.Fields(testbed.Key))
		time.Sleep(2 * time.Minute)
		assert.True(t, lock.IsHeld(them))
		require.NoError(t, lock.Unlock(them))
	})
}

// The same of a call whose first command with that key is a join behind a condition.
func TestAConditionWithoutTheRightToRedissonsFairQueue(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		held := testbed.Take(t, w.Ctx, w.NewClient().NewLock(testbed.Key))
		refuseFairQueue(w)
		lock := w.NewClient().NewLock(testbed.Key)
		a := contract.Answer{Unless: "return redis.call('get', KEYS[1])", Keys: []string{lock.Key("stored")}}
		waits := testbed.Waits(t, func() error {
			h, err := lock.Acquire(w.Ctx, contract.WithAnswer(&a))
			if err != nil {
				return err
			}
			return h.Release(w.Ctx)
		})
		require.NoError(t, held.Release(w.Ctx))
		require.NoError(t, <-waits)
	})
}

func refuseFairQueue(w *testbed.World) {
	w.Answer(func(command string, args ...string) string {
		if strings.HasPrefix(command, "eval") && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "redisson_lock_queue:") }) {
			return "NOPERM this user has no permissions to access one of the keys used as arguments"
		}
		return ""
	})
}

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

// New says so. Clients that are connected go on: a waiter without a connection for its subscription
// polls, and one that has lost its connection comes back when there is room, and still holds its
// locks if that was in time.
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
	require.NoError(t, redistest.Await(t, waiter))
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
	redistest.Await(s.T, queued)
	return holds
}

// handOver has a client wait. Its subscription stays for a while, so that it hears of later grants
// from their beginning.
func (s *fullServer) handOver(from, to *rlock.Client) {
	s.T.Helper()
	holder := *s
	if s.reads {
		holder.lock = testbed.LocksOf()["write"]
	}
	hold, next := holder.acquire(from, rlock.NewOwner()), s.wait(to)
	s.AwaitListeners(1, testbed.Plain, "rlock_grants:{"+testbed.Key+"}"+s.mode+":"+inspect.Of(to).ID())
	s.release(hold)
	s.release(s.granted(next))
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
				select { // next may come first: here hears a moment later that there waits
				case hold := <-next:
					s.release(hold)
					return s.granted(other)
				case hold := <-other:
					s.release(hold)
					return s.granted(next)
				}
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
					s.handOver(s.here, s.there)
					s.handOver(s.there, s.here)
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
