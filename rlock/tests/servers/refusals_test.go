package servers_test

import (
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No kind of lock needs a subscription: a waiter without one polls.
func TestWaitersWhoseChannelIsRefusedPoll(t *testing.T) {
	for _, reply := range []string{
		"ERR unknown command 'SUBSCRIBE', with args beginning with: ",
		"NOPERM this user has no permissions to run the 'subscribe' command",
		"NOPERM this user has no permissions to access the 'rlock_grants:...' channel",
	} {
		t.Run(reply, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				holder, p, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
				w.Answer(func(command string, _ ...string) string {
					if command == "subscribe" {
						return reply
					}
					return ""
				})
				for _, lock := range []func(*testbed.Client) testbed.Locker{
					func(p *testbed.Client) testbed.Locker { return p.NewLock(testbed.Key) },
					func(p *testbed.Client) testbed.Locker { return p.NewFairLock(testbed.Key) },
					func(p *testbed.Client) testbed.Locker { return p.NewReadWriteLock(testbed.Key).Write() },
				} {
					require.NoError(t, lock(holder).Lock(me))
					waiter := testbed.Start(func() error { return lock(p).Lock(them) })
					require.True(t, testbed.Pending(waiter))
					require.NoError(t, lock(holder).Unlock(me))
					testbed.Within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-waiter) })
					require.NoError(t, lock(p).Unlock(them))
				}
			})
		})
	}
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
		_, err := p.NewLock(testbed.Key).IsLocked(me) // the client is connected
		require.NoError(t, err)
		full.Store(true)
		result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, testbed.Pending(result))
		assert.Equal(t, 1, p.Logged("the server ends connections for subscriptions"))
		assert.Equal(t, 1, p.Logged("max number of clients reached"))
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		testbed.Within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
	})
}

// The waiters poll often enough.
func TestAFairWaiterWithoutASubscriptionKeepsWaiting(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		dial, full := hangsUp(w)
		p, other, them, me := testbed.NewTestClient(t, dial), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, other.NewFairLock(testbed.Key).Lock(them))
		_, err := p.NewFairLock(testbed.Key).IsLocked(me)
		require.NoError(t, err)
		full.Store(true)
		result := testbed.Start(func() error { return p.NewFairLock(testbed.Key).Lock(me) })
		time.Sleep(10 * time.Second)
		require.True(t, testbed.Pending(result))
		full.Store(false)
		require.NoError(t, other.NewFairLock(testbed.Key).Unlock(them))
		require.NoError(t, <-result)
		require.NoError(t, p.NewFairLock(testbed.Key).Unlock(me))
	})
}

// A server without memory for new keys grants no lock, not even to a writer.
func TestAServerThatIsFullOfDataGrantsNoKindOfLock(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t, "--maxmemory-policy", "noeviction"))
	client := s.NewClient(testbed.WithLease(time.Second))
	for _, lock := range []testbed.Locker{
		client.NewLock(testbed.Key), client.NewFencedLock(testbed.Key), client.NewFairLock(testbed.Key),
		client.NewReadWriteLock(testbed.Key).Read(), client.NewReadWriteLock(testbed.Key).Write(),
	} {
		s.Configure("maxmemory", "1")
		ok, err := lock.TryLock(s.Ctx)
		assert.ErrorContains(t, err, "OOM", "%T", lock)
		assert.False(t, ok)
		if ok {
			require.NoError(t, lock.Unlock(s.Ctx))
		}
		s.Configure("maxmemory", "0")
	}
}

// The key is deleted by then, and a retry could not notify the waiters.
func TestAReleaseThatCannotBePublishedIsNotRetried(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t, "--rename-command", "PUBLISH", ""))
	client := s.NewClient()
	for _, lock := range []testbed.Locker{
		client.NewLock(testbed.Key), client.NewFencedLock(testbed.Key), client.NewFairLock(testbed.Key),
		client.NewReadWriteLock(testbed.Key).Read(), client.NewReadWriteLock(testbed.Key).Write(),
	} {
		require.NoError(t, lock.Lock(s.Ctx))
		err := lock.Unlock(s.Ctx)
		assert.ErrorIs(t, err, rlock.ErrUnsupported, "%T", lock)
		assert.NotErrorIs(t, err, rlock.ErrUnconfirmed, "%T", lock)
		assert.ErrorContains(t, err, "it is released, but the waiters were not told")
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	}
	s.Number("DEL", testbed.TokenKey)
	s.Number("DEL", testbed.Queue)
}

// The release carries the ticket of the next local waiter, and the queue's key is of another
// type.
func TestAReleaseThatCarriesATicketFreesTheLockWhateverTheQueueIs(t *testing.T) {
	for name, lock := range map[string]func(*testbed.Client) testbed.Locker{
		"plain": func(p *testbed.Client) testbed.Locker { return p.NewLock(testbed.Key) },
		"write": func(p *testbed.Client) testbed.Locker { return p.NewReadWriteLock(testbed.Key).Write() },
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				queues := testbed.Queue
				if name == "write" {
					queues += "rw"
				}
				here, there, me, us, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller(), w.Caller()
				require.NoError(t, lock(there).Lock(them))
				waited := testbed.Start(func() error { return lock(here).Lock(me) }) // subscribes as well
				require.True(t, testbed.Pending(waited))
				require.NoError(t, lock(there).Unlock(them))
				require.NoError(t, <-waited)
				elsewhere := testbed.Start(func() error { return lock(there).Lock(them) })
				next := testbed.Start(func() error { return lock(here).Lock(us) })
				time.Sleep(time.Second) // the other waiters have waited for a release
				require.True(t, testbed.Pending(next))
				w.Del(queues)
				require.NoError(t, w.Set(queues, "no queue"))
				err := lock(here).Unlock(me)
				require.ErrorContains(t, err, "it is released")
				assert.ErrorIs(t, err, rlock.ErrWrongType)
				assert.False(t, w.Exists(testbed.Key))
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder, first, next := w.NewClient().NewFencedLock(testbed.Key), w.NewClient().NewFencedLock(testbed.Key), w.NewClient().NewFencedLock(testbed.Key)
		me, them, others := w.Caller(), w.Caller(), w.Caller()
		require.NoError(t, holder.Lock(me))
		refused := testbed.Start(func() error { return first.Lock(them) })
		require.True(t, testbed.Pending(refused))
		time.Sleep(time.Second)
		waits := testbed.Start(func() error { return next.Lock(others) })
		require.True(t, testbed.Pending(waits))
		time.Sleep(100 * time.Millisecond) // its next look is in about two seconds
		require.NoError(t, w.Set(testbed.TokenKey, "no number"))
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			assert.ErrorContains(t, holder.Unlock(me), "token counter")
			assert.ErrorContains(t, <-waits, "token counter")
		})
		assert.ErrorContains(t, <-refused, "token counter")
	})
}

// A user without the right to Redisson's fair queue: a mirror that counts those that wait names its key, and may come before any
// step that does.
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
		held, err := w.NewClient().NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		refuseFairQueue(w)
		lock := w.NewClient().NewLock(testbed.Key)
		a := rlock.Answer{Unless: "return redis.call('get', KEYS[1])", Keys: []string{lock.Key("stored")}}
		waits := testbed.Start(func() error {
			h, err := lock.Acquire(w.Ctx, rlock.WithAnswer(&a))
			if err != nil {
				return err
			}
			return h.Release(w.Ctx)
		})
		require.True(t, testbed.Pending(waits))
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
