package rlock_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// The rueidis client of a program has rueidis' defaults: several connections, and commands
// that may overtake each other.
func TestClientsThatShareARueidisClientExcludeEachOtherAndLeaveItOpen(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		shared := make(map[*site]rueidis.Client)
		for _, site := range s.sites {
			client, err := rueidis.NewClient(site.Options())
			require.NoError(t, err)
			t.Cleanup(client.Close)
			shared[site] = client
		}
		sharing := func() *process {
			return s.with(func(site *site) *rlock.Client {
				return site.client(func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, shared[site] })
			})
		}

		processes := []*process{sharing(), sharing(), s.process()}
		r := new(record)
		for _, p := range processes {
			r.work(s.site, p.lock(key), 4, rounds(12))
		}
		r.check(t, 3*4*rounds(12))
		for _, p := range processes {
			for _, client := range p.clients {
				require.NoError(t, client.Close())
			}
		}
		for _, client := range shared {
			assert.NoError(t, client.Do(s.ctx, client.B().Exists().Key(key).Build()).Error(), "the client was closed")
		}
	})
}
