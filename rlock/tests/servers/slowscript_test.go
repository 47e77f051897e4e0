package servers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowScript runs a script that takes so long on the primaries, and returns when it has ended.
// They answer BUSY to other commands meanwhile.
func slowScript(s *testbed.Site, d time.Duration) {
	s.T.Helper()
	const script = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
		local ends = now() + ARGV[1]
		repeat until now() >= ends`
	var all sync.WaitGroup
	for _, node := range s.Nodes() {
		if s.Role(node)["role"] != "master" {
			continue
		}
		opt := node.Options()
		opt.ForceSingleClient, opt.DisableRetry, opt.ConnWriteTimeout = true, true, testbed.Hang
		client, err := rueidis.NewClient(opt)
		require.NoError(s.T, err)
		defer client.Close()
		all.Go(func() {
			eval := client.B().Arbitrary("EVAL", script, "0", fmt.Sprint(d.Milliseconds())).Blocking()
			if err := client.Do(s.Ctx, eval).Error(); !rueidis.IsRedisNil(err) {
				assert.NoError(s.T, err)
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
	for kind, launch := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindCluster:    redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := testbed.At(t, testbed.Calm(launch(t, "--lua-time-limit", "100")))
			var clients []*rlock.Client
			short := testbed.WithLease(2 * time.Second) // a release that is refused is tried again after a quarter of it
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
				waits := func(c *rlock.Config) { c.SyncReplicas = testbed.ReplicasOf[kind] }
				clients = append(clients, s.NewClient(own, short), s.NewClient(own, short, waits), s.NewClient(shared, short), s.NewClient(shared, short, waits))
			}
			for i, client := range clients { // each waits for another one: all channels are subscribed
				s.HandOver(clients[(i+1)%len(clients)], client)
			}
			ctx, stop := context.WithCancel(s.Ctx)
			var all sync.WaitGroup
			for _, client := range clients { // a connection for CLIENT LIST, and for WAIT, is given back all the time
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = client.Inspect(ctx, testbed.Key)
						time.Sleep(10 * time.Millisecond)
						_ = client.NewLock(testbed.Key).Do(ctx, testbed.Nothing, rlock.WithWait(10*time.Millisecond))
					}
				})
			}
			slowScript(s, 7*time.Second)
			stop()
			all.Wait()
			for _, client := range clients {
				require.NoError(t, client.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing))
			}
		})
	}
}
