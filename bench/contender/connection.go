package contender

import (
	"time"

	"github.com/redis/rueidis"
)

// defaultLease is that of the designs written here.
const defaultLease = 30 * time.Second

// connect opens the rueidis client of the floor and of the designs written here,
// with the settings that rlock gives its own: one pipelined connection, no
// client-side cache, buffers of 64 KiB. What is left between them and rlock is
// the lock.
func connect(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:         []string{addr},
		ForceSingleClient:   true,
		DisableCache:        true,
		PipelineMultiplex:   -1,
		AlwaysPipelining:    true,
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
	})
}

// A connection is a Client's connection to Redis, to embed.
type connection struct{ redis rueidis.Client }

// Close implements Client.
func (c connection) Close() error {
	c.redis.Close()
	return nil
}
