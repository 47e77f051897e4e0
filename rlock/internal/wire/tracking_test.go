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
	id := wire.NewID()
	redis := openWith(t, redistest.Embedded(t), id, func(o *wire.Options) {
		o.Tracking, o.Redis.PipelineMultiplex = true, -1 // as package rlock
	})
	changed := make(chan string, 10)
	redis.OnChange(func(keys []string) {
		for _, key := range keys {
			changed <- key
		}
	})
	call := func(name, owner string) wire.Call {
		keys := keysOf(t, redis, name, wire.Plain.Layout)
		c := redis.CallOf(leave(&keys, owner))
		c.Track = []string{name}
		return c
	}
	known := call("gone", id.Owner(1))
	known.Track = nil
	require.NoError(t, redis.Do(t.Context(), known).Error(), "the script is known now")
	require.NoError(t, do(t, redis, "HSET", "there", id.Owner(1), "1").Error())
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
