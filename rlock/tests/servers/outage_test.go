package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnlockReportsARedisThatIsDownAndTheLockIsReleasedWhenItReturns(t *testing.T) {
	for name, fail := range testbed.Outages {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, other, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
				require.NoError(t, p.NewLock(testbed.Key).Lock(me))
				fail(p.Net)
				testbed.Within(t, 0, 4*time.Second, func() {
					err := p.NewLock(testbed.Key).Unlock(me)
					require.ErrorIs(t, err, rlock.ErrUnconfirmed)
					require.NotErrorIs(t, err, rlock.ErrLost)
				})
				assert.False(t, p.NewLock(testbed.Key).IsHeld(me), "the lock is not held, whatever Unlock returns")
				require.ErrorIs(t, p.NewLock(testbed.Key).Unlock(me), rlock.ErrNotHeld)
				result := testbed.Start(func() error { return other.NewLock(testbed.Key).Lock(them) })
				time.Sleep(10 * time.Second)
				require.True(t, testbed.Pending(result))
				p.Net.Heal()
				testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, <-result) })
				time.Sleep(time.Minute)
				require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
			})
		})
	}
}

func TestATimeToWaitThatEndsDuringAnOutageDoesNotSayThatTheLockIsHeld(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		p.Net.Refuse()
		ok, err := p.NewLock(testbed.Key).TryLockFor(me, time.Minute, 0)
		assert.False(t, ok)
		require.Error(t, err)
		_, err = p.NewLock(testbed.Key).Acquire(me, rlock.WithWait(time.Minute))
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		require.Error(t, err)
	})
}

// The server closes the connection before the client has sent a command, when the caller has
// left: rueidis panics at an answer without a question, in a goroutine of its own.
func TestAConnectionThatIsRefusedWhileItsCallerLeavesIsNoPanic(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var leave atomic.Pointer[context.CancelFunc] // nil: the server takes connections
		p := w.NewClient(func(c *rlock.Config) {
			dial := c.Redis.DialCtxFn
			c.Redis.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				left := leave.Load()
				if left == nil {
					return dial(ctx, addr, dialer, config)
				}
				ours, theirs := net.Pipe()
				go func() {
					_, _ = ours.Write([]byte("-ERR max number of clients reached\r\n"))
					_ = ours.Close()
				}()
				(*left)()
				return theirs, nil
			}
		})
		for range 30 {
			ctx, cancel := context.WithCancel(w.Caller())
			synctest.Wait() // otherwise the release of the last acquire would connect again
			p.Net.Cut()
			synctest.Wait()
			leave.Store(&cancel)
			require.ErrorIs(t, p.NewLock(testbed.Key).Lock(ctx), context.Canceled)
			synctest.Wait()
			leave.Store(nil)
			me := w.Caller()
			require.NoError(t, p.NewLock(testbed.Key).Lock(me))
			require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
		}
	})
}

func TestAReplicaIsWaitedForUntilItIsAPrimary(t *testing.T) {
	server, admin := testbed.Standalone(t)
	ctx := context.Background()
	client := testbed.Dial(t, server.Options())
	require.NoError(t, admin.Do(ctx, admin.B().Replicaof().Host("127.0.0.1").Port(1).Build()).Error())
	_, err := client.NewLock(testbed.Key).TryLock(ctx)
	require.ErrorContains(t, err, "READONLY")
	result := testbed.Start(func() error { return client.NewLock(testbed.Key).Do(ctx, func(context.Context) error { return nil }) })
	require.NoError(t, admin.Do(ctx, admin.B().Replicaof().No().One().Build()).Error())
	require.NoError(t, <-result)
}

// callers starts size calls, each with a number, and returns the function that ends them.
func callers(t *testing.T, ctx context.Context, size int, call func(ctx context.Context, i int) error) (disperse func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	results := make([]<-chan error, size)
	for i := range results {
		results[i] = testbed.Start(func() error { return call(rlock.WithOwner(ctx, rlock.NewOwner()), i) })
	}
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		for _, result := range results {
			require.Error(t, <-result)
		}
	}
}

func TestUnlockIsBoundedHoweverManyLocksAreAskedForMeanwhile(t *testing.T) {
	for name, call := range map[string]func(p *testbed.Client) func(context.Context, int) error{
		"locks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"fair locks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewFairLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"looks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error {
				_, err := p.NewLock(fmt.Sprint("lock ", i)).IsLocked(ctx)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				lock := p.NewLock(testbed.Key)
				require.NoError(t, lock.Lock(me))
				require.NoError(t, lock.Unlock(me)) // the scripts are known
				require.NoError(t, lock.Lock(me))
				p.Net.Rule(network.Silence)
				disperse := callers(t, w.Ctx, 4000, call(p))
				testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
				testbed.Within(t, 0, 0, disperse)
			})
		})
	}
}

func TestALookOutlivesAConnectionThatEnds(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(me))
		p.Net.Rule(network.Nth(1, network.Cut, network.Reply, "EXISTS"))
		locked, err := p.NewLock(testbed.Key).IsLocked(w.Ctx)
		require.NoError(t, err)
		assert.True(t, locked)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(me))
	})
}

func TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, them := w.NewClient(), w.NewClient(), w.Caller()
		w.Answer(testbed.RefusePubSub)
		names := []string{"one", "two", "three"}
		var results []<-chan error
		owners := []context.Context{w.Caller(), w.Caller(), w.Caller()}
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Lock(them))
			results = append(results, testbed.Start(func() error { return p.NewLock(name).Lock(owners[i]) }))
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Logged("refuses a subscription"))
		assert.Zero(t, p.Logged("User default"), "the user is not named")
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Unlock(them))
			testbed.Within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-results[i]) })
			require.NoError(t, p.NewLock(name).Unlock(owners[i]))
		}
		assert.Empty(t, w.Keys())
	})
}

func TestWhereNoMessageArrivesAWaiterLooksAfterTwoSeconds(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		p.Net.Rule(network.Deaf)
		require.NoError(t, other.NewLock(testbed.Key).LockFor(them, time.Hour))
		result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		testbed.Within(t, 0, 5*time.Second, func() { require.NoError(t, <-result) })
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
	})
}

func TestAWaiterIsWokenByTheMessageOfTheRelease(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) { s.Wakes(s.NewClient(), s.NewClient(), s.Family()) })
}

// Redisson: testAutoExpire.
func TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		s.Set(testbed.Key, "a-process-that-died:1", time.Hour)
		assert.False(t, s.IsFree(lock))
		s.Number("PEXPIRE", testbed.Key, "100")
		require.NoError(t, lock.Lock(s.Ctx))
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}
