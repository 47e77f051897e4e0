package redistest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(childRole, "="); os.Getenv(name) == value {
		obey()
		return
	}
	if os.Getenv(child) == "TestWithoutMainEachStartsServersOfItsOwn" {
		os.Exit(m.Run())
	}
	redistest.Main(m)
}

// key and other are in different shards of a Cluster.
const key, other = "orders:42", "orders:7"

func TestEachKindStartsEmptyAndAnswers(t *testing.T) {
	for range 2 { // the second time the shared servers have been used
		redistest.Each(t, func(t *testing.T, s *redistest.Server) {
			c := s.Client(t)
			assert.True(t, absent(t, c), "an earlier test left the key")
			set(t, c, key, "1")
			assert.Equal(t, "1", get(t, c, key))
		})
	}
}

func TestCallsAreCountedByName(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		set(t, c, other, "1")
		calls := s.CountCalls(t, func() {
			set(t, c, key, "1")
			set(t, c, other, "1")
			incr := c.B().Eval().Script(`return redis.call('incr', KEYS[1])`).Numkeys(1).Key(key).Build()
			require.NoError(t, c.Do(t.Context(), incr).Error())
		})
		assert.EqualValues(t, 2, calls["set"])
		assert.EqualValues(t, 1, calls["eval"])
		assert.EqualValues(t, 1, calls["incr"], "of the script")
		assert.NotContains(t, calls, "get")
	})
}

func TestTheNodesOfEachKind(t *testing.T) {
	redistest.WithoutServer(t) // then without the embedded one
	redistest.Standalone(t)    // or skip
	nodes := make(map[redistest.Kind]int)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		set(t, s.Client(t), key, "1")
		nodes[s.Kind] = len(s.Nodes())
		for _, node := range s.Nodes() {
			c := node.Client(t)
			require.NoError(t, c.Do(t.Context(), c.B().Ping().Build()).Error())
		}
		assert.Equal(t, "1", get(t, s.Primary(key).Client(t), key))
	})
	assert.Equal(t, map[redistest.Kind]int{redistest.KindEmbedded: 1, redistest.KindStandalone: 1, redistest.KindSentinel: 3, redistest.KindCluster: 6}, nodes)
}

func TestTheArgumentsReachTheServer(t *testing.T) {
	s := redistest.Standalone(t, "--maxclients", "77")
	c := s.Client(t)
	got, err := c.Do(t.Context(), c.B().ConfigGet().Parameter("maxclients").Build()).AsStrMap()
	require.NoError(t, err)
	assert.Equal(t, "77", got["maxclients"])
}

func set(t *testing.T, c rueidis.Client, key, value string) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), c.B().Set().Key(key).Value(value).Build()).Error())
}

func get(t *testing.T, c rueidis.Client, key string) string {
	t.Helper()
	value, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
	require.NoError(t, err)
	return value
}

// ping sends one command with a time limit, since there may be no answer.
func ping(t *testing.T, c rueidis.Client) error {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	return c.Do(ctx, c.B().Ping().Build()).Error()
}

// eventually polls for a condition. The limit ends a hang only.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	// Sentinels whose election failed try again after 20 s.
	require.Eventually(t, condition, redistest.Hang, 5*time.Millisecond)
}

// A server that is configured incompletely omits primaries, and clients then do not find the
// node of a slot.
func TestEachNodeOfAClusterNamesAllPrimariesWithTheirSlots(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindCluster}, func(t *testing.T, s *redistest.Server) {
		for _, node := range s.Nodes() {
			c := node.Client(t)
			list, err := c.Do(t.Context(), c.B().ClusterSlots().Build()).ToArray()
			require.NoError(t, err)
			assert.Len(t, list, 3)
			if s.Major() < 7 {
				continue
			}
			shards, err := c.Do(t.Context(), c.B().ClusterShards().Build()).ToArray()
			require.NoError(t, err)
			assert.Len(t, shards, 3)
			for _, shard := range shards {
				fields, err := shard.AsMap()
				require.NoError(t, err)
				for _, part := range []string{"slots", "nodes"} {
					values, err := new(fields[part]).ToArray()
					require.NoError(t, err)
					assert.Len(t, values, 2, "%s of a shard: one range, and a primary with its replica", part)
				}
			}
		}
	})
}
