package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCloseReportsInTimeThatRedisIsOutOfReach(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, other, them, me := w.client(), w.client(), w.caller(), w.caller()
				require.NoError(t, p.NewLock(key).Lock(me))
				require.NoError(t, other.NewLock("theirs").Lock(them))
				waits := start(func() error { return p.NewLock("theirs").Lock(me) })
				require.True(t, pending(waits))
				fail(p.net)
				within(t, 3*time.Second, 6*time.Second, func() { require.ErrorIs(t, p.Close(), rlock.ErrUnconfirmed) })
				require.ErrorIs(t, <-waits, rlock.ErrClosed)
				sent := len(p.net.Sent(""))
				require.NoError(t, other.NewLock(key).Lock(them), "its lease has ended")
				assert.Len(t, p.net.Sent(""), sent, "commands were sent after Close")
				require.NoError(t, other.NewLock(key).Unlock(them))
			})
		})
	}
}

func TestCloseWaitsLongerIfTheConfigGivesTheServerLonger(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(func(c *rlock.Config) { c.Redis.ConnWriteTimeout = 12 * time.Second }), w.caller()
		one, two := p.NewLock("one"), p.NewLock("two")
		require.NoError(t, one.Lock(me)) // the scripts are known
		require.NoError(t, one.Unlock(me))
		require.NoError(t, one.Lock(me))
		require.NoError(t, two.Lock(me))
		synctest.Wait() // the client has subscribed to its own channel: a connection that fails makes it verify all locks
		p.net.SetRoundTrip(8 * time.Second)
		within(t, 8*time.Second, 8*time.Second, func() { require.NoError(t, one.Unlock(me)) })
		within(t, 8*time.Second, 10*time.Second, func() { require.NoError(t, p.Close()) }) // rueidis allows each of two connections a second
		assert.Empty(t, w.Keys())
	})
}

func TestCloseWithNothingHeldDoesNotWaitForAServerThatIsAway(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		require.NoError(t, p.lock(key).Lock(me))
		require.NoError(t, p.lock(key).Unlock(me))
		w.settle()
		p.refuse()
		within(t, 0, time.Second, func() { require.NoError(t, p.Close()) })
	})
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
