package pubsub_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
)

// busy runs a script for so long on all primaries of the server. From a tenth of a second on
// they answer BUSY to whatever they are asked.
func busy(t *testing.T, redis *redistest.Server, d time.Duration) (ended func()) {
	t.Helper()
	const script = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
		local ends = now() + ARGV[1]
		repeat until now() >= ends`
	var all sync.WaitGroup
	for _, node := range redis.Nodes() {
		role, err := do(t, node.Client(t), "ROLE").ToArray()
		require.NoError(t, err)
		if name, _ := role[0].ToString(); name != "master" {
			continue
		}
		opt := node.Options()
		opt.ForceSingleClient, opt.DisableRetry, opt.ConnWriteTimeout = true, true, time.Minute
		client, err := rueidis.NewClient(opt)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		all.Go(func() {
			eval := client.B().Arbitrary("EVAL", script, "0", fmt.Sprint(d.Milliseconds())).Blocking()
			if err := client.Do(context.Background(), eval).Error(); !rueidis.IsRedisNil(err) {
				assert.NoError(t, err)
			}
		})
	}
	return all.Wait
}

// While a script runs, channels come and go, and connections are renewed. rueidis must not
// meet an answer that it takes for a broken protocol: that ends the process.
func TestABusyServerEndsNoProcess(t *testing.T) {
	t.Parallel() // it mostly waits
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindCluster:    redistest.Cluster,
	} {
		for _, resp2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s resp2=%v", kind, resp2), func(t *testing.T) {
				t.Parallel()
				redis := start(t, "--lua-time-limit", "100")
				if kind == redistest.KindCluster {
					redis.TakeForDead(time.Minute)
				}
				opt := redis.Options()
				opt.AlwaysRESP2, opt.DisableCache = resp2, true
				hub, _ := newHub(t, opt, pubsub.Config{Sharded: redis.HasShardedPubSub(), Linger: 50 * time.Millisecond})
				names := channelNames()
				needed := make([]*waiter, 10)
				for i := range needed {
					needed[i] = wait(hub, names[i])
				}
				for _, s := range needed {
					awaitWake(t, s)
				}
				churn := func(until func() bool) {
					for i := len(needed); !until(); i++ {
						wait(hub, names[len(needed)+i%(len(names)-len(needed))]).Close()
						time.Sleep(5 * time.Millisecond)
					}
				}
				began := time.Now()
				churn(func() bool { return time.Since(began) > time.Second })
				done := make(chan struct{})
				ended := busy(t, redis, 4*time.Second)
				go func() { ended(); close(done) }()
				churn(func() bool {
					select {
					case <-done:
						return true
					default:
						return false
					}
				})
				for _, s := range needed {
					eventually(t, "all are confirmed", s.Confirmed)
					require.NoError(t, s.Refused())
				}
				s := wait(hub, "afterwards")
				awaitWake(t, s)
				require.NoError(t, s.Refused())
			})
		}
	}
}
