package calls_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCloseReportsInTimeThatRedisIsOutOfReach(t *testing.T) {
	for name, fail := range testbed.Outages {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, other, them, me := w.NewClient(), w.NewClient(), w.Caller(), w.Caller()
				require.NoError(t, p.NewLock(testbed.Key).Lock(me))
				require.NoError(t, other.NewLock("theirs").Lock(them))
				waits := testbed.Start(func() error { return p.NewLock("theirs").Lock(me) })
				require.True(t, testbed.Pending(waits))
				fail(p.Net)
				testbed.Within(t, 3*time.Second, 6*time.Second, func() { require.ErrorIs(t, p.Close(), rlock.ErrUnconfirmed) })
				require.ErrorIs(t, <-waits, rlock.ErrClosed)
				sent := len(p.Net.Sent(""))
				require.NoError(t, other.NewLock(testbed.Key).Lock(them), "its lease has ended")
				assert.Len(t, p.Net.Sent(""), sent, "commands were sent after Close")
				require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
			})
		})
	}
}

func TestCloseWaitsLongerIfTheConfigGivesTheServerLonger(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(func(c *rlock.Config) { c.Redis.ConnWriteTimeout = 12 * time.Second }), w.Caller()
		one, two := p.NewLock("one"), p.NewLock("two")
		require.NoError(t, one.Lock(me)) // the scripts are known
		require.NoError(t, one.Unlock(me))
		require.NoError(t, one.Lock(me))
		require.NoError(t, two.Lock(me))
		synctest.Wait() // the client has subscribed to its own channel: a connection that fails makes it verify all locks
		p.Net.SetRoundTrip(8 * time.Second)
		testbed.Within(t, 8*time.Second, 8*time.Second, func() { require.NoError(t, one.Unlock(me)) })
		testbed.Within(t, 8*time.Second, 10*time.Second, func() { require.NoError(t, p.Close()) }) // rueidis allows each of two connections a second
		assert.Empty(t, w.Keys())
	})
}

func TestCloseWithNothingHeldDoesNotWaitForAServerThatIsAway(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		require.NoError(t, p.NewLock(testbed.Key).Lock(me))
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
		w.Settle()
		p.Refuse()
		testbed.Within(t, 0, time.Second, func() { require.NoError(t, p.Close()) })
	})
}

// connections are the ways in which a lock client may be connected.
var connections = map[string]func(w *testbed.World) (*rlock.Client, *network.Network){
	"of its own": func(w *testbed.World) (*rlock.Client, *network.Network) {
		p := w.NewClient()
		return p.Client, p.Net
	},
	"of its own, several": func(w *testbed.World) (*rlock.Client, *network.Network) {
		p := w.NewClient(func(c *rlock.Config) { c.Redis.PipelineMultiplex = 2 })
		return p.Client, p.Net
	},
	"shared": func(w *testbed.World) (*rlock.Client, *network.Network) {
		client, _, n := sharing(w)
		return client, n
	},
	"shared, one that pipelines": func(w *testbed.World) (*rlock.Client, *network.Network) {
		client, _, n := sharing(w, func(o *rueidis.ClientOption) { o.AlwaysPipelining, o.PipelineMultiplex = true, -1 })
		return client, n
	},
}

// A caller leaves while its acquire is in flight. Redis tells the client whether it was
// executed, so Close has nothing to warn of.
func TestCloseIsConfirmedAlthoughCallersHaveLeft(t *testing.T) {
	for name, connect := range connections {
		for kind, newLock := range map[string]func(*rlock.Client) testbed.Locker{
			"lock":       func(c *rlock.Client) testbed.Locker { return c.NewLock(testbed.Key) },
			"fair lock":  func(c *rlock.Client) testbed.Locker { return c.NewFairLock(testbed.Key) },
			"write lock": func(c *rlock.Client) testbed.Locker { return c.NewReadWriteLock(testbed.Key).Write() },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					random := rand.New(rand.NewPCG(1, 2))
					for round := range testbed.Rounds(30) {
						holder, me := w.NewClient(), w.Caller()
						held := round%3 == 0
						if held {
							require.NoError(t, newLock(holder.Client).Lock(me))
						}
						client, n := connect(w)
						lock := newLock(client)
						n.SetRoundTrip(20 * time.Millisecond)
						var results []<-chan error
						for range 4 {
							ctx, cancel := context.WithTimeout(w.Caller(), time.Duration(random.IntN(300))*time.Millisecond/10)
							results = append(results, testbed.Start(func() error {
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
						testbed.Within(t, 0, 500*time.Millisecond, func() { require.NoError(t, client.Close()) }) // a release that found nothing is sent again
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

func closeAtASilentServer(t *testing.T, w *testbed.World, connect func(*testbed.World) (*rlock.Client, *network.Network), begin time.Duration) {
	before := ours()
	client, n := connect(w)
	n.Rule(network.Silence)
	var results []<-chan error
	for i := range 200 {
		ctx, cancel := context.WithTimeout(w.Caller(), begin+(8*time.Second-begin)/200*time.Duration(i))
		call := func() error { return client.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		if i%4 == 3 {
			call = func() error { _, err := client.NewLock(testbed.Key).IsLocked(ctx); return err }
		}
		results = append(results, testbed.Start(func() error {
			defer cancel()
			return call()
		}))
	}
	synctest.Wait()
	testbed.Within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
	assert.Equal(t, before, ours(), "goroutines")
	for _, result := range results {
		require.Error(t, <-result)
	}
}
