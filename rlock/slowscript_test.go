package rlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowScript runs a script that takes so long on the primaries, and returns when it has ended.
// They answer BUSY to other commands meanwhile.
func (s *site) slowScript(d time.Duration) {
	s.t.Helper()
	const script = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
		local ends = now() + ARGV[1]
		repeat until now() >= ends`
	var all sync.WaitGroup
	for _, node := range s.Nodes() {
		if s.role(node)["role"] != "master" {
			continue
		}
		opt := node.Options()
		opt.ForceSingleClient, opt.DisableRetry, opt.ConnWriteTimeout = true, true, hang
		client, err := rueidis.NewClient(opt)
		require.NoError(s.t, err)
		defer client.Close()
		all.Go(func() {
			eval := client.B().Arbitrary("EVAL", script, "0", fmt.Sprint(d.Milliseconds())).Blocking()
			if err := client.Do(s.ctx, eval).Error(); !rueidis.IsRedisNil(err) {
				assert.NoError(s.t, err)
			}
		})
	}
	all.Wait()
}

// A script of another program runs for longer than a contended channel stays subscribed. rueidis
// panics in a goroutine of its own when an UNSUBSCRIBE is answered with BUSY, which would end the
// test's process as well.
func TestASlowScriptOfAnotherProgramEndsNoProcess(t *testing.T) {
	t.Parallel() // it mostly waits
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindCluster:    redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := at(t, calm(start(t, "--lua-time-limit", "100")))
			var clients []*rlock.Client
			short := withLease(2 * time.Second) // a release that is refused is tried again after a quarter of it
			for _, resp2 := range []bool{false, true} {
				own := func(c *rlock.Config) { c.Redis.AlwaysRESP2 = resp2 }
				shared := func(c *rlock.Config) {
					opt := s.Options()
					opt.AlwaysRESP2 = resp2
					client, err := rueidis.NewClient(opt)
					require.NoError(t, err)
					t.Cleanup(client.Close)
					c.Redis, c.Client = rueidis.ClientOption{}, client
				}
				waits := func(c *rlock.Config) { c.SyncReplicas = replicasOf[kind] }
				clients = append(clients, s.client(own, short), s.client(own, short, waits), s.client(shared, short), s.client(shared, short, waits))
			}
			for _, client := range clients { // each waits for each other: all channels are subscribed
				lock := clients[0].NewLock(key)
				if client == clients[0] {
					lock = clients[1].NewLock(key)
				}
				hold, err := lock.Acquire(s.ctx)
				require.NoError(t, err)
				got := background(func() error {
					hold, err := client.NewLock(key).Acquire(s.ctx)
					if err == nil {
						err = hold.Release(s.ctx)
					}
					return err
				})
				s.awaitWaiters(1, key)
				require.NoError(t, hold.Release(s.ctx))
				require.NoError(t, s.await(got))
			}

			ctx, stop := context.WithCancel(s.ctx)
			var all sync.WaitGroup
			for _, client := range clients { // a connection for CLIENT LIST, and for WAIT, is given back all the time
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = client.Inspect(ctx, key)
						time.Sleep(10 * time.Millisecond)
						if hold, err := client.NewLock(key).Acquire(ctx, rlock.WithWait(10*time.Millisecond)); err == nil {
							_ = hold.Release(s.ctx)
						}
					}
				})
			}
			s.slowScript(7 * time.Second)
			stop()
			all.Wait()
			for _, client := range clients {
				hold, err := client.NewLock(key).Acquire(s.ctx)
				require.NoError(t, err)
				require.NoError(t, hold.Release(s.ctx))
			}
		})
	}
}
