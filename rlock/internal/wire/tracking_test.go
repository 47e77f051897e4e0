package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A key that has gone by the time that Redis is to track it would send no notice.
func TestAKeyThatIsGoneWhenItIsTrackedCountsAsChanged(t *testing.T) {
	option := redistest.Embedded(t).Options()
	option.PipelineMultiplex = -1 // as package rlock
	redis, err := wire.Open(wire.Options{Redis: option, Tracking: true}, wire.NewID().Prefix)
	require.NoError(t, err)
	t.Cleanup(func() {
		redis.Stop()
		redis.Close()
	})
	changed := make(chan string, 10)
	redis.OnChange(func(keys []string) {
		for _, key := range keys {
			changed <- key
		}
	})
	call := func(name, owner string) wire.Call {
		keys, err := redis.KeysOf(name, wire.Layout{Channel: "redisson_lock__channel:"}, "")
		require.NoError(t, err)
		c := redis.CallOf(leave(&keys, owner))
		c.Track = []string{name}
		return c
	}
	id := wire.NewID()
	known := call("gone", id.Owner(1))
	known.Track = nil
	require.NoError(t, redis.Do(t.Context(), known).Error(), "the script is known now")
	require.NoError(t, redis.Client.Do(t.Context(), redis.Client.B().Hset().Key("there").FieldValue().FieldValue(id.Owner(1), "1").Build()).Error())
	results, _ := redis.DoAll(t.Context(), []wire.Call{call("there", id.Owner(2)), call("gone", id.Owner(1))})
	for _, result := range results {
		require.NoError(t, result.Error())
	}
	require.Len(t, changed, 1)
	assert.Equal(t, "gone", <-changed)
	assert.EqualValues(t, 1, redis.TrackingRefused(), "the embedded server has none")

	redis.DoAll(t.Context(), []wire.Call{call("gone", id.Owner(1))})
	assert.Empty(t, changed, "it is not asked again")
}
