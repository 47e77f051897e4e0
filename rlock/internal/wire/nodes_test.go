package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestEachSlotOfARangeBelongsToItsNode(t *testing.T) {
	server := redistest.Cluster(t)
	redis, err := wire.Open(wire.Options{Redis: server.Options()}, wire.NewID().Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	ranges, err := redis.Client.Do(t.Context(), redis.Client.B().ClusterSlots().Build()).ToArray()
	require.NoError(t, err)
	nodes := make(map[uint32]bool)
	for _, r := range ranges {
		fields, err := r.ToArray()
		require.NoError(t, err)
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		node := redis.Nodes.Of(uint16(first))
		assert.Equal(t, node, redis.Nodes.Of(uint16(last)), "%d to %d", first, last)
		nodes[node] = true
	}
	assert.Len(t, nodes, 3)
}
