package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// sharing returns a lock client that shares a rueidis client of the world's server, and the
// network between them. The changes are made to the options of the rueidis client.
func (w *world) sharing(changes ...func(*rueidis.ClientOption)) (*rlock.Client, rueidis.Client, *network.Network) {
	w.t.Helper()
	n := network.New(w.Dial)
	option := rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: n.Dial,
	}
	for _, change := range changes {
		change(&option)
	}
	shared, err := rueidis.NewClient(option)
	require.NoError(w.t, err)
	client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = client.Close()
		shared.Close()
		n.Close()
	})
	return client, shared, n
}

// connections are the ways in which a lock client may be connected.
var connections = map[string]func(w *world) (*rlock.Client, *network.Network){
	"of its own": func(w *world) (*rlock.Client, *network.Network) {
		p := w.client()
		return p.Client, p.net
	},
	"of its own, several": func(w *world) (*rlock.Client, *network.Network) {
		p := w.client(func(c *rlock.Config) { c.Redis.PipelineMultiplex = 2 })
		return p.Client, p.net
	},
	"shared": func(w *world) (*rlock.Client, *network.Network) {
		client, _, n := w.sharing()
		return client, n
	},
	"shared, one that pipelines": func(w *world) (*rlock.Client, *network.Network) {
		client, _, n := w.sharing(func(o *rueidis.ClientOption) { o.AlwaysPipelining, o.PipelineMultiplex = true, -1 })
		return client, n
	},
}

// A caller leaves while its acquire is in flight. Redis tells the client whether it was
// executed, so Close has nothing to warn of.
func TestCloseIsConfirmedAlthoughCallersHaveLeft(t *testing.T) {
	for name, connect := range connections {
		for kind, newLock := range map[string]func(*rlock.Client) locker{
			"lock":       func(c *rlock.Client) locker { return c.NewLock(key) },
			"fair lock":  func(c *rlock.Client) locker { return c.NewFairLock(key) },
			"write lock": func(c *rlock.Client) locker { return c.NewReadWriteLock(key).Write() },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					random := rand.New(rand.NewPCG(1, 2))
					for round := range rounds(30) {
						holder, me := w.client(), w.caller()
						held := round%3 == 0
						if held {
							require.NoError(t, newLock(holder.Client).Lock(me))
						}
						client, n := connect(w)
						lock := newLock(client)
						n.SetRoundTrip(20 * time.Millisecond)
						var results []<-chan error
						for range 4 {
							ctx, cancel := context.WithTimeout(w.caller(), time.Duration(random.IntN(300))*time.Millisecond/10)
							results = append(results, start(func() error {
								defer cancel()
								if err := lock.Lock(ctx); err != nil {
									return err
								}
								return lock.Unlock(ctx)
							}))
							time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond / 10)
						}
						for _, result := range results {
							if err := <-result; err != nil {
								require.ErrorIs(t, err, context.DeadlineExceeded)
							}
						}
						within(t, 0, 500*time.Millisecond, func() { require.NoError(t, client.Close()) }) // a release that found nothing is sent again
						if held {
							require.NoError(t, newLock(holder.Client).Unlock(me))
						}
						require.Empty(t, w.Keys())
						require.NoError(t, holder.Close())
					}
				})
			})
		}
	}
}

// ours returns how many goroutines this package has started.
func ours() (n int) {
	buffer := make([]byte, 64<<20)
	stacks := string(buffer[:runtime.Stack(buffer, true)])
	return strings.Count(stacks, "\ncreated by github.com/go-rlock/rlock/rlock.")
}

// Contexts end before, while and after Close gives up.
func TestNoGoroutineOutlivesClose(t *testing.T) {
	for name, connect := range connections {
		for when, begin := range map[string]time.Duration{"all the time": 0, "when Close gives up": 3 * time.Second} {
			t.Run(name+", "+when, func(t *testing.T) {
				bubbleAlone(t, func(t *testing.T, w *world) { closeAtASilentServer(t, w, connect, begin) })
			})
		}
	}
}

func closeAtASilentServer(t *testing.T, w *world, connect func(*world) (*rlock.Client, *network.Network), begin time.Duration) {
	before := ours()
	client, n := connect(w)
	n.Rule(network.Silence)
	var results []<-chan error
	for i := range 200 {
		ctx, cancel := context.WithTimeout(w.caller(), begin+(8*time.Second-begin)/200*time.Duration(i))
		call := func() error { return client.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		if i%4 == 3 {
			call = func() error { _, err := client.NewLock(key).IsLocked(ctx); return err }
		}
		results = append(results, start(func() error {
			defer cancel()
			return call()
		}))
	}
	synctest.Wait()
	within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
	assert.Equal(t, before, ours(), "goroutines")
	for _, result := range results {
		require.Error(t, <-result)
	}
}

func TestALockEndsWithTheSharedClientThatWasClosedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		clients := make([]*rlock.Client, 3)
		shared := make([]rueidis.Client, 3)
		for i := range clients {
			clients[i], shared[i], _ = newWorld(t, w.ctx).sharing()
		}
		client := clients[0]
		held, me := client.NewLock("held"), w.caller()
		require.NoError(t, held.Lock(me))
		for _, s := range shared {
			s.Close()
		}
		within(t, 0, 5*time.Second, func() { require.ErrorIs(t, held.Unlock(me), rlock.ErrUnconfirmed) })
		for name, lock := range map[string]locker{
			"lock":       client.NewLock(key),
			"fair lock":  client.NewFairLock(key),
			"read lock":  client.NewReadWriteLock(key).Read(),
			"multi-lock": rlock.NewMultiLock(client.NewLock(key), client.NewLock("another")),
		} {
			within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Lock(w.caller()), rlock.ErrClosed, name) })
			within(t, 0, 5*time.Second, func() {
				err := lock.Lock(w.caller())
				require.ErrorIs(t, err, rlock.ErrClosed, name)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
			within(t, 0, 5*time.Second, func() {
				_, err := lock.IsLocked(w.ctx)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
		}
		within(t, 0, 5*time.Second, func() {
			require.ErrorIs(t, rlock.NewRedLock(clients, key).Lock(w.caller()), rueidis.ErrClosing)
		})
	})
}

// Other callers wait for the connection that one caller's command opens.
func TestACallerThatLeavesWhileItConnectsFailsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		for range 20 {
			require.NoError(t, p.NewLock("held").Lock(me))
			p.net.SetRoundTrip(20 * time.Millisecond)
			p.net.Cut()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(w.caller(), 10*time.Millisecond)
			leaves := start(func() error { return p.NewLock(key).Lock(ctx) })
			require.True(t, pending(leaves))
			require.NoError(t, p.NewLock("held").Unlock(me))
			require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
			cancel()
			p.net.SetRoundTrip(0)
			time.Sleep(time.Second)
		}
	})
}
