package pubsub_test

import (
	"context"
	"fmt"
	"testing"

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

// awaitCounted waits until every channel is confirmed and its primary counts
// exactly one subscriber. The look goes to the primary of the channel's slot, and
// keeps the client's map of the cluster fresh as a lock's commands would.
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
	redis := redistest.Cluster(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true})
	names := channelNames()
	subs := make([]*pubsub.Subscription, len(names))
	for i, name := range names {
		subs[i] = hub.Subscribe(name)
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
		{"and returns as a replica", func() { redis.Start(); redis.Failover(moving) }},
	} {
		t.Run(change.name, func(t *testing.T) {
			change.make()
			awaitMark(t, subs[7])
			awaitCounted(t, hub, outside, names)
			for i, name := range names {
				drain(subs[i])
				publish := outside.B().Spublish().Channel(name).Message("0").Build()
				require.NoError(t, outside.Do(t.Context(), publish).Error())
				awaitMark(t, subs[i])
			}
		})
	}
	hub.Close()
	for _, name := range names {
		eventually(t, "nothing stays subscribed", func() bool { return shardSubscribers(outside, name) == 0 })
	}
}

func drain(s *pubsub.Subscription) {
	select {
	case <-s.C():
	default:
	}
}

func TestAClusterWithoutShardedChannels(t *testing.T) {
	redis := redistest.Cluster(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{})
	for _, name := range channelNames() {
		s := hub.Subscribe(name)
		awaitMark(t, s)
		require.NoError(t, s.Refused())
		do(t, outside, "PUBLISH", name, "0")
		awaitMark(t, s)
		assert.False(t, hub.Confirmed(name), "a node counts its own subscribers only")
	}
}

func TestSentinelIsFollowedToTheNewPrimary(t *testing.T) {
	redis := redistest.Sentinel(t)
	hub, client := newHub(t, redis.Options(), pubsub.Config{})
	s := hub.Subscribe("a")
	awaitMark(t, s)
	for _, change := range []struct {
		name string
		make func()
	}{
		{"planned", func() { redis.Failover("a") }},
		{"the primary dies", func() { redis.Primary("a").Stop() }},
	} {
		t.Run(change.name, func(t *testing.T) {
			change.make()
			awaitMark(t, s)
			eventually(t, "the new primary counts it", func() bool {
				return hub.Confirmed("a") && subscribers(t, client, "NUMSUB", "a") == 1
			})
			do(t, client, "PUBLISH", "a", "0")
			awaitMark(t, s)
		})
	}
}
