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

// newHub returns a hub with a client of its own. Both are closed with the test.
func newHub(t testing.TB, opt rueidis.ClientOption, cfg pubsub.Config) (*pubsub.Hub, rueidis.Client) {
	t.Helper()
	opt.ConnWriteTimeout = 2 * time.Second
	opt.ClusterOption.ShardsRefreshInterval = time.Second
	opt.Sentinel.TopologyRefreshInterval = time.Second
	client, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	cfg.Client = client
	hub := pubsub.New(cfg)
	t.Cleanup(hub.Close)
	return hub, client
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, redistest.Hang, 5*time.Millisecond, what)
}

func do(t testing.TB, client rueidis.Client, command ...string) rueidis.RedisResult {
	t.Helper()
	result := client.Do(context.Background(), client.B().Arbitrary(command...).Build())
	require.NoError(t, result.Error(), command)
	return result
}

// subscribers returns the server's count; ask is NUMSUB or SHARDNUMSUB.
func subscribers(t testing.TB, client rueidis.Client, ask, channel string) int64 {
	t.Helper()
	counts, err := do(t, client, "PUBSUB", ask, channel).AsIntMap()
	require.NoError(t, err)
	return counts[channel]
}

func TestKilledConnectionsAreReplaced(t *testing.T) {
	redis := redistest.Standalone(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{})
	s := woken(t, hub, "a")
	for range 5 {
		do(t, outside, "CLIENT", "KILL", "TYPE", "pubsub")
		awaitWake(t, s)
		assert.True(t, hub.Confirmed("a"))
		assert.EqualValues(t, 1, subscribers(t, outside, "NUMSUB", "a"))
		do(t, outside, "PUBLISH", "a", "0")
		awaitWake(t, s)
	}
	hub.Close()
	eventually(t, "a closed hub leaves no subscription", func() bool {
		return subscribers(t, outside, "NUMSUB", "a") == 0
	})
}

func TestARestartedServerIsSubscribedAgain(t *testing.T) {
	redis := redistest.Standalone(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{})
	s := woken(t, hub, "a")
	redis.Stop()
	eventually(t, "the loss is noticed", func() bool { return !hub.Confirmed("a") })
	redis.Start()
	awaitWake(t, s)
	assert.True(t, hub.Confirmed("a"))
	assert.EqualValues(t, 1, subscribers(t, redis.Client(t), "NUMSUB", "a"))
}

func TestTenThousandChannelsShareAConnection(t *testing.T) {
	redis := redistest.Standalone(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Linger: time.Nanosecond})
	subs := make([]*waiter, 10_000)
	for i := range subs {
		subs[i] = wait(hub, fmt.Sprint("c", i))
	}
	for round := range 2 {
		for i, s := range subs {
			awaitWake(t, s)
			name := fmt.Sprint("c", i)
			eventually(t, fmt.Sprintf("%s is confirmed in round %d", name, round), func() bool { return hub.Confirmed(name) })
		}
		if round == 0 {
			do(t, outside, "CLIENT", "KILL", "TYPE", "pubsub")
		}
	}
	killed, err := do(t, outside, "CLIENT", "KILL", "TYPE", "pubsub").AsInt64()
	require.NoError(t, err)
	assert.EqualValues(t, 1, killed, "connections")
	for _, s := range subs {
		s.Close()
	}
	eventually(t, "nothing stays subscribed", func() bool {
		left, err := do(t, outside, "PUBSUB", "CHANNELS").AsStrSlice()
		return err == nil && len(left) == 0
	})
}

func TestAUserSubscribesWhatItsACLPermits(t *testing.T) {
	redis := redistest.Standalone(t)
	outside := redis.Client(t)
	do(t, outside, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels", "&open:*")
	opt := redis.Options()
	opt.Username, opt.Password = "limited", "secret"
	hub, _ := newHub(t, opt, pubsub.Config{Linger: time.Nanosecond})

	var open []*waiter
	for i := range 50 {
		open = append(open, wait(hub, fmt.Sprint("open:", i)))
	}
	closed := woken(t, hub, "closed")
	require.ErrorContains(t, closed.Refused(), "NOPERM")
	assert.False(t, hub.Confirmed("closed"))
	for i, s := range open {
		awaitWake(t, s)
		require.NoError(t, s.Refused())
		require.True(t, hub.Confirmed(fmt.Sprint("open:", i)))
	}

	// The server ends the connection of a user that lost a channel.
	do(t, outside, "ACL", "SETUSER", "limited", "resetchannels", "&open:1")
	awaitWake(t, open[1], open[2])
	require.NoError(t, open[1].Refused())
	require.ErrorContains(t, open[2].Refused(), "NOPERM")

	// After the grant a subscription that comes after the linger asks again.
	do(t, outside, "ACL", "SETUSER", "limited", "&closed")
	closed.Close()
	eventually(t, "the channel is granted", func() bool {
		s := wait(hub, "closed")
		defer s.Close()
		awaitWake(t, s)
		return s.Refused() == nil
	})
}

func TestAUserWithoutPubSubIsRefusedEverything(t *testing.T) {
	redis := redistest.Standalone(t)
	do(t, redis.Client(t), "ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-@pubsub")
	opt := redis.Options()
	opt.Username, opt.Password = "mute", "secret"
	for _, sharded := range []bool{false, true} {
		if sharded {
			redistest.NeedMajor(t, 7)
		}
		hub, client := newHub(t, opt, pubsub.Config{Sharded: sharded, Linger: time.Nanosecond})
		for i := range 3 {
			s := woken(t, hub, fmt.Sprint("c", i))
			require.ErrorContains(t, s.Refused(), "NOPERM")
			s.Close()
		}
		do(t, client, "PING")
	}
}

func TestShardedChannelsWorkOnASingleServer(t *testing.T) {
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Standalone(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true, Linger: time.Nanosecond})
	a, b := wait(hub, "a"), wait(hub, "b")
	awaitWake(t, a, b)
	assert.True(t, hub.Confirmed("a"))
	assert.EqualValues(t, 1, subscribers(t, outside, "SHARDNUMSUB", "a"))
	do(t, outside, "SPUBLISH", "a", "0")
	awaitWake(t, a)
	a.Close()
	eventually(t, "the channel is unsubscribed", func() bool {
		return subscribers(t, outside, "SHARDNUMSUB", "a") == 0
	})
	assert.False(t, hub.Confirmed("a"))
	assert.True(t, hub.Confirmed("b"))
}

// busy runs a script for so long on all primaries of the server. From a tenth of a second on they
// answer BUSY to whatever they are asked.
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

// While a script runs, channels come and go, and connections are renewed. rueidis must not meet an
// answer that it takes for a broken protocol: that ends the process.
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
				s := woken(t, hub, "afterwards")
				require.NoError(t, s.Refused())
			})
		}
	}
}
