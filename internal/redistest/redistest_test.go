package redistest_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestEachKindStartsEmptyAndAnswers(t *testing.T) {
	for range 2 { // the second time the shared servers have been used
		redistest.Each(t, func(t *testing.T, s *redistest.Server) {
			c := s.Client(t)
			was, err := c.Do(t.Context(), c.B().Arbitrary("SET").Keys("orders:42").Args("1", "GET").Build()).ToString()
			assert.True(t, rueidis.IsRedisNil(err), "an earlier test left the key: %s, %v", was, err)
		})
	}
}

func TestTheArgumentsReachTheServer(t *testing.T) {
	s := redistest.Standalone(t, "--maxclients", "77")
	c := s.Client(t)
	got, err := c.Do(t.Context(), c.B().ConfigGet().Parameter("maxclients").Build()).AsStrMap()
	require.NoError(t, err)
	assert.Equal(t, "77", got["maxclients"])
}
