package servers_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewFailsIfRedisIsDown(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		net := network.New(w.Dial)
		defer net.Close()
		net.Refuse()
		client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{
			InitAddress:       []string{"127.0.0.1:6379"},
			ForceSingleClient: true,
			DialCtxFn:         net.Dial,
		}})
		require.ErrorContains(t, err, "127.0.0.1:6379")
		assert.Nil(t, client)
	}) // the bubble fails if a goroutine is left
}

func TestAWaiterWaitsThroughAnOutage(t *testing.T) {
	for name, fail := range testbed.Outages {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, other, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
				require.NoError(t, other.NewLock(testbed.Key).Lock(them))
				result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
				require.True(t, testbed.Pending(result))
				fail(p.Net)
				time.Sleep(2 * time.Minute)
				require.NoError(t, other.NewLock(testbed.Key).Unlock(them), "the release succeeds; only its message is lost")
				time.Sleep(time.Minute)
				require.True(t, testbed.Pending(result))
				p.Net.Heal()
				testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, <-result) })
				require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
				time.Sleep(time.Minute)
				assert.Empty(t, w.Keys())
			})
		})
	}
}

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

func TestALockWhoseReleaseNeverArrivesIsFreeWhenItsLeaseHasEnded(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me, them := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
		require.NoError(t, p.NewLock(testbed.Key).Lock(me))
		p.Net.Refuse()
		begin := time.Now()
		require.ErrorIs(t, p.NewLock(testbed.Key).Unlock(me), rlock.ErrUnconfirmed)
		require.NoError(t, other.NewLock(testbed.Key).Lock(them))
		assert.LessOrEqual(t, time.Since(begin), 30*time.Second+50*time.Millisecond)
		time.Sleep(time.Minute)
		p.Net.Heal()
		time.Sleep(time.Minute)
		assert.True(t, other.NewLock(testbed.Key).IsHeld(them), "a late release must not end the next tenure")
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
	})
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
		for range 100 {
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

func TestAPausedServerIsWaitedFor(t *testing.T) {
	server, _ := testbed.Standalone(t)
	ctx := context.Background()
	client := testbed.Dial(t, server.Options())
	require.NoError(t, client.NewLock(testbed.Key).Lock(ctx))
	server.Pause()
	limited, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := client.NewLock("free").Acquire(limited, rlock.WithWait(0))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	server.Resume()
	require.NoError(t, client.NewLock(testbed.Key).Unlock(ctx))
	require.NoError(t, client.NewLock("free").Lock(ctx))
	require.NoError(t, client.NewLock("free").Unlock(ctx))
}
