package main

import (
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// addrEnv is the environment variable that names a server, as "host:port", to use instead of the one
// in memory. The holder that will be killed gets the address by it.
const addrEnv = "REDIS_ADDR"

// connect returns the options of a connection to a Redis, and the function that stops it. Without
// addrEnv the server is in memory, and listens on the loopback interface. Its clock runs, so that
// leases end.
func connect() (options rueidis.ClientOption, stop func(), err error) {
	addr, stop := os.Getenv(addrEnv), func() {}
	if addr == "" {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		if err := server.Start(); err != nil {
			return options, stop, err
		}
		addr, stop = server.Addr(), server.Close
	}
	// miniredis answers CLUSTER SLOTS, and would be taken for a cluster; and it has no client
	// tracking, which the client-side cache needs.
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}, stop, nil
}
