package servers_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		time.Sleep(2 * time.Minute)
		assert.Equal(t, 2, p.Logged(testbed.Unserved), "an old trouble is not told")
	})
}

func TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	client := testbed.Dial(t, s.Options())
	held := client.NewLock("held")
	require.NoError(t, held.Lock(s.Ctx))
	other := s.NewClient()
	next := testbed.Start(func() error { return other.NewLock("held").Do(s.Ctx, testbed.Nothing) })
	s.AwaitWaiters(1, "held")
	s.Admin("CONFIG", "SET", "maxmemory", "1")
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
	require.NoError(t, redistest.Await(t, next), "the release grants the lock all the same")
	s.Admin("CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, client.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing))
}

func TestWaitersWithoutAConnectionForSubscriptionsPollAndLogItOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var full atomic.Bool
		p := testbed.NewTestClient(t, func() (net.Conn, error) {
			if !full.Load() {
				return w.Dial()
			}
			return closes("-ERR max number of clients reached\r\n"), nil
		})
		other, them, me := w.NewClient(), w.Caller(), w.Caller()
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

// The user lacks the right to Redisson's fair queue. Its key is named by a mirror that counts waiters,
// which may be sent before any step.
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

// The same for a call whose first command with that key is a join behind a condition.
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
