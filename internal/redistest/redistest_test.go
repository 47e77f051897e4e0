package redistest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) {
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

func TestEachRunsTheTestOnAllFourKinds(t *testing.T) {
	redistest.WithoutServer(t) // then without the embedded one
	redistest.Standalone(t)    // or skip
	var kinds []redistest.Kind
	redistest.Each(t, func(_ *testing.T, s *redistest.Server) { kinds = append(kinds, s.Kind) })
	assert.Equal(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}, kinds)
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
	want := map[redistest.Kind]int{redistest.KindEmbedded: 1, redistest.KindStandalone: 1, redistest.KindSentinel: 3, redistest.KindCluster: 6}
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		set(t, s.Client(t), key, "1")
		assert.Len(t, s.Nodes(), want[s.Kind])
		for _, node := range s.Nodes() {
			answers(t, node.Client(t))
		}
		assert.Equal(t, "1", get(t, s.Primary(key).Client(t), key))
	})
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

// answers requires an answer, however long it takes.
func answers(t *testing.T, c rueidis.Client) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), c.B().Ping().Build()).Error())
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
		commands := []string{"SLOTS"}
		if s.Major() >= 7 {
			commands = append(commands, "SHARDS")
		}
		for _, node := range s.Nodes() {
			for _, command := range commands {
				c := node.Client(t)
				list, err := c.Do(t.Context(), c.B().Arbitrary("CLUSTER", command).Build()).ToArray()
				require.NoError(t, err)
				assert.Len(t, list, 3, "CLUSTER %s", command)
				for _, shard := range list {
					if command == "SHARDS" {
						fields, err := shard.AsMap()
						require.NoError(t, err)
						slots, nodes := fields["slots"], fields["nodes"]
						for name, part := range map[string]rueidis.RedisMessage{"slots": slots, "nodes": nodes} {
							values, err := part.ToArray()
							require.NoError(t, err)
							assert.Len(t, values, 2, "%s of a shard: one range, and a primary with its replica", name)
						}
					}
				}
			}
		}
	})
}
