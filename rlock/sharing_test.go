package rlock_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// A program's own rueidis client has rueidis' defaults: several connections, and
// commands that may overtake each other.
func TestClientsThatShareARueidisClientExcludeEachOtherAndLeaveItOpen(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		shared, err := rueidis.NewClient(s.Options())
		require.NoError(t, err)
		t.Cleanup(shared.Close)
		share := func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, shared }

		clients := []*rlock.Client{s.client(share), s.client(share), s.client()}
		r := new(record)
		for _, client := range clients {
			r.work(s, client.NewLock(key), 4, 12)
		}
		r.check(t, 3*4*12)
		for _, client := range clients {
			require.NoError(t, client.Close())
		}
		s.awaitListeners(0, s.family(), channel)
		assert.NoError(t, shared.Do(s.ctx, shared.B().Exists().Key(key).Build()).Error(), "it is still open")
	})
}
