package pubsub_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
)

// channelNames spread over all nodes.
func channelNames() []string {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	return names
}

// awaitCounted waits until every channel is confirmed and its primary counts exactly one
// subscriber.
func awaitCounted(t testing.TB, hub *pubsub.Hub, outside rueidis.Client, names []string) {
	t.Helper()
	for _, name := range names {
		eventually(t, name+" is confirmed and counted", func() bool {
			return hub.Confirmed(name) && shardSubscribers(outside, name) == 1
		})
	}
}

// shardSubscribers asks the primary of the channel's slot.
func shardSubscribers(client rueidis.Client, channel string) int64 {
	ask := rueidis.NewLuaScript("return redis.call('pubsub', 'shardnumsub', KEYS[1])[2]")
	count, err := ask.Exec(context.Background(), client, []string{channel}, nil).AsInt64()
	if err != nil {
		return -1
	}
	return count
}

func TestAClusterIsFollowedWhereItsSlotsGo(t *testing.T) {
	t.Parallel()              // it mostly waits
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Cluster(t)
	outside := redis.Client(t)
	hub, client := newHub(t, redis.Options(), pubsub.Config{Sharded: true})
	names := channelNames()

	// The hub asks any node, and so may ask a replica, which accepts subscriptions that its primary
	// does not count. A cluster shows its replicas only after a first write.
	for _, name := range names {
		require.NoError(t, outside.Do(t.Context(), outside.B().Set().Key(name).Value("").Build()).Error())
	}
	eventually(t, "the client knows the replicas", func() bool { return len(client.Nodes()) == 6 })

	subs := make([]*waiter, len(names))
	for i, name := range names {
		subs[i] = wait(hub, name)
	}
	moving := names[7]
	for _, change := range []struct {
		name string
		make func()
	}{
		{"at first", func() {}},
		{"a slot moves", func() { redis.MoveSlot(moving) }},
		{"and back", func() { redis.MoveSlot(moving) }},
		{"a replica takes over", func() { redis.Failover(moving) }},
		{"a primary dies", func() { redis.Primary(moving).Stop() }},
	} {
		t.Run(change.name, func(t *testing.T) {
			change.make()
			awaitWake(t, subs[7])
			awaitCounted(t, hub, outside, names)
			for i, name := range names {
				drain(subs[i])
				publish := outside.B().Spublish().Channel(name).Message("0").Build()
				require.NoError(t, outside.Do(t.Context(), publish).Error())
				awaitWake(t, subs[i])
			}
		})
	}
	hub.Close()
	for _, name := range names {
		eventually(t, "nothing stays subscribed", func() bool { return shardSubscribers(outside, name) == 0 })
	}
}

// While a slot moves, two nodes may each name the other as its owner.
func TestAChannelIsNotSentBackAndForthWithoutPause(t *testing.T) {
	t.Parallel()              // it mostly waits
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Cluster(t)
	redis.TakeForDead(time.Minute) // the roles of the two nodes must not change
	one, other := redis.Primary("c0").Client(t), redis.Primary("c1").Client(t)
	slot, oneID, otherID := do(t, one, "CLUSTER", "KEYSLOT", "c0"), text(t, one, "CLUSTER", "MYID"), text(t, other, "CLUSTER", "MYID")
	require.NotEqual(t, oneID, otherID)
	number, err := slot.AsInt64()
	require.NoError(t, err)
	assign := func(node rueidis.Client, owner string) {
		do(t, node, "CLUSTER", "SETSLOT", fmt.Sprint(number), "NODE", owner)
	}
	assign(one, otherID)
	assign(other, oneID)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true, Linger: time.Second})
	begin := time.Now()
	s := wait(hub, "c0")

	// Twenty rejections are more than one chase; the limit is one chase a tick.
	eventually(t, "the channel is asked for again and again", func() bool { return rejections(t, one, other) >= 20 })
	seen := rejections(t, one, other)
	ticks := int(time.Since(begin)/(250*time.Millisecond)) + 2 // at least as many: time goes on
	assert.LessOrEqual(t, seen, 7*ticks)

	assign(one, oneID)
	awaitWake(t, s)
	require.NoError(t, s.Refused())

	// Subscriptions that end meanwhile leave no further retries.
	assign(one, otherID)
	seen = rejections(t, one, other)
	again := wait(hub, "{c0}:again")
	eventually(t, "it is asked for", func() bool { return rejections(t, one, other) > seen })
	s.Close()
	again.Close()
	eventually(t, "the hub is at rest", func() bool { return hub.Links() == 0 })
}

// rejections counts the SSUBSCRIBE that the nodes have answered with MOVED.
func rejections(t testing.TB, nodes ...rueidis.Client) (sum int) {
	t.Helper()
	for _, node := range nodes {
		for line := range strings.Lines(text(t, node, "INFO", "commandstats")) {
			_, count, found := strings.Cut(line, "rejected_calls=")
			if found && strings.HasPrefix(line, "cmdstat_ssubscribe:") {
				count, _, _ = strings.Cut(count, ",")
				n, err := strconv.Atoi(count)
				require.NoError(t, err)
				sum += n
			}
		}
	}
	return sum
}

func text(t testing.TB, node rueidis.Client, command ...string) string {
	t.Helper()
	reply, err := do(t, node, command...).ToString()
	require.NoError(t, err)
	return reply
}

// A node that is configured not to announce its host says MOVED 42 :6379.
func TestAClusterWhoseNodesGiveNoHost(t *testing.T) {
	t.Parallel()              // it mostly waits
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Cluster(t, "--cluster-preferred-endpoint-type", "unknown-endpoint")
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true})
	for _, name := range channelNames() {
		woken(t, hub, name)
		eventually(t, name+" is counted", func() bool { return hub.Confirmed(name) })
	}
}

func TestAClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := redistest.Cluster(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{})
	for _, name := range channelNames() {
		s := woken(t, hub, name)
		require.NoError(t, s.Refused())
		do(t, outside, "PUBLISH", name, "0")
		awaitWake(t, s)
		assert.False(t, hub.Confirmed(name), "a node counts its own subscribers only")
	}
}

func TestSentinelIsFollowedToTheNewPrimary(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := redistest.Sentinel(t)
	hub, client := newHub(t, redis.Options(), pubsub.Config{})
	s := woken(t, hub, "a")
	again := func(t *testing.T) {
		t.Helper()
		awaitWake(t, s)
		eventually(t, "the new primary counts it", func() bool {
			return hub.Confirmed("a") && subscribers(t, client, "NUMSUB", "a") == 1
		})
		do(t, client, "PUBLISH", "a", "0")
		awaitWake(t, s)
	}
	t.Run("when a failover is planned", func(t *testing.T) {
		old := redis.Primary("a").Client(t)
		redis.Failover("a")
		again(t)
		// Sentinel turns the old primary into a replica after some 10 s, and only then ends its
		// connections. The hub must not have waited for that.
		role, err := do(t, old, "ROLE").ToArray()
		require.NoError(t, err)
		name, _ := role[0].ToString()
		assert.Equal(t, "master", name)
	})
	t.Run("when the primary dies", func(t *testing.T) {
		redis.Primary("a").Stop()
		again(t)
	})
}
