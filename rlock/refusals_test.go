package rlock_test

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

// A user without the right to Redisson's fair queue: a mirror that counts those that wait names its key, and may come before any
// step that does.
func TestAHandOffIsShownWithoutTheRightToRedissonsFairQueue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.answer(func(command string, args ...string) string {
			if strings.HasPrefix(command, "eval") && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "redisson_lock_queue:") }) {
				return "NOPERM this user has no permissions to access one of the keys used as arguments"
			}
			return ""
		})
		p, me, them := w.client(), w.caller(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		waits := start(func() error { return lock.Lock(them) })
		synctest.Wait()
		before := w.fields(key)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-waits)
		synctest.Wait()
		assert.NotEqual(t, before, w.fields(key))
		time.Sleep(2 * time.Minute)
		assert.True(t, lock.IsHeld(them))
		require.NoError(t, lock.Unlock(them))
	})
}
