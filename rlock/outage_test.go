package rlock_test

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
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outages are the ways in which a client loses its server.
var outages = map[string]func(*network.Network){
	"cut":    (*network.Network).Refuse,
	"silent": func(n *network.Network) { n.Rule(network.Silence) },
}

func TestNewFailsIfRedisIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
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
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
				require.NoError(t, other.NewLock(key).Lock(them))
				result := start(func() error { return p.NewLock(key).Lock(me) })
				require.True(t, pending(result))
				fail(p.net)
				time.Sleep(2 * time.Minute)
				require.NoError(t, other.NewLock(key).Unlock(them), "the release succeeds; only its message is lost")
				time.Sleep(time.Minute)
				require.True(t, pending(result))
				p.net.Heal()
				within(t, 0, 2*time.Second, func() { require.NoError(t, <-result) })
				require.NoError(t, p.NewLock(key).Unlock(me))
				time.Sleep(time.Minute)
				assert.Empty(t, w.Keys())
			})
		})
	}
}

func TestUnlockReportsARedisThatIsDownAndTheLockIsReleasedWhenItReturns(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
				require.NoError(t, p.NewLock(key).Lock(me))
				fail(p.net)
				within(t, 0, 4*time.Second, func() {
					err := p.NewLock(key).Unlock(me)
					require.ErrorIs(t, err, rlock.ErrUnconfirmed)
					require.NotErrorIs(t, err, rlock.ErrLost)
				})
				assert.False(t, p.NewLock(key).IsHeld(me), "the lock is not held, whatever Unlock returns")
				require.ErrorIs(t, p.NewLock(key).Unlock(me), rlock.ErrNotHeld)
				result := start(func() error { return other.NewLock(key).Lock(them) })
				time.Sleep(10 * time.Second)
				require.True(t, pending(result))
				p.net.Heal()
				within(t, 0, 2*time.Second, func() { require.NoError(t, <-result) })
				time.Sleep(time.Minute)
				require.NoError(t, other.NewLock(key).Unlock(them))
			})
		})
	}
}

func TestALockWhoseReleaseNeverArrivesIsFreeWhenItsLeaseHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		require.NoError(t, p.NewLock(key).Lock(me))
		p.net.Refuse()
		begin := time.Now()
		require.ErrorIs(t, p.NewLock(key).Unlock(me), rlock.ErrUnconfirmed)
		require.NoError(t, other.NewLock(key).Lock(them))
		assert.LessOrEqual(t, time.Since(begin), 30*time.Second+50*time.Millisecond)
		time.Sleep(time.Minute)
		p.net.Heal()
		time.Sleep(time.Minute)
		assert.True(t, other.NewLock(key).IsHeld(them), "a late release must not end the next tenure")
		require.NoError(t, other.NewLock(key).Unlock(them))
	})
}

func TestATimeToWaitThatEndsDuringAnOutageDoesNotSayThatTheLockIsHeld(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		p.net.Refuse()
		ok, err := p.NewLock(key).TryLockFor(me, time.Minute, 0)
		assert.False(t, ok)
		require.Error(t, err)
		_, err = p.NewLock(key).Acquire(me, rlock.WithWait(time.Minute))
		require.NotErrorIs(t, err, rlock.ErrNotAcquired)
		require.Error(t, err)
	})
}

// The server closes the connection before the client has sent a command, when the caller has
// left: rueidis panics at an answer without a question, in a goroutine of its own.
func TestAConnectionThatIsRefusedWhileItsCallerLeavesIsNoPanic(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		var leave atomic.Pointer[context.CancelFunc] // nil: the server takes connections
		p := w.client(func(c *rlock.Config) {
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
			ctx, cancel := context.WithCancel(w.caller())
			synctest.Wait() // otherwise the release of the last acquire would connect again
			p.net.Cut()
			synctest.Wait()
			leave.Store(&cancel)
			require.ErrorIs(t, p.NewLock(key).Lock(ctx), context.Canceled)
			synctest.Wait()
			leave.Store(nil)
			me := w.caller()
			require.NoError(t, p.NewLock(key).Lock(me))
			require.NoError(t, p.NewLock(key).Unlock(me))
		}
	})
}

func TestAReplicaIsWaitedForUntilItIsAPrimary(t *testing.T) {
	server, admin := standalone(t)
	ctx := context.Background()
	client := dial(t, server.Options())
	require.NoError(t, admin.Do(ctx, admin.B().Replicaof().Host("127.0.0.1").Port(1).Build()).Error())
	_, err := client.NewLock(key).TryLock(ctx)
	require.ErrorContains(t, err, "READONLY")
	result := start(func() error { return client.NewLock(key).Do(ctx, func(context.Context) error { return nil }) })
	require.NoError(t, admin.Do(ctx, admin.B().Replicaof().No().One().Build()).Error())
	require.NoError(t, <-result)
}

func TestAPausedServerIsWaitedFor(t *testing.T) {
	server, _ := standalone(t)
	ctx := context.Background()
	client := dial(t, server.Options())
	require.NoError(t, client.NewLock(key).Lock(ctx))
	server.Pause()
	limited, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := client.NewLock("free").Acquire(limited, rlock.WithWait(0))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	server.Resume()
	require.NoError(t, client.NewLock(key).Unlock(ctx))
	require.NoError(t, client.NewLock("free").Lock(ctx))
	require.NoError(t, client.NewLock("free").Unlock(ctx))
}
