// Package embedded gives the examples a Redis without anything to install: an
// in-memory one (miniredis) inside the program, or the server that REDIS_ADDR
// names.
//
// The in-memory one listens on a port of the loopback interface, so that a
// second process can join in: quickstart starts one, and kills it. Its clock
// runs, so that leases end. It ends with the program, and what it held is gone.
package embedded

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// AddrEnv is the environment variable that names a server, as "host:port", to
// use instead of the one in memory.
const AddrEnv = "REDIS_ADDR"

// Redis returns the options of a connection to a Redis, and the function that stops it.
// Without [AddrEnv] it starts one; else it does not look whether a server is
// there: the first connection does. On an error nothing is left running.
func Redis() (options rueidis.ClientOption, stop func(), err error) {
	addr, stop := os.Getenv(AddrEnv), func() {}
	if addr == "" {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		if err := server.Start(); err != nil {
			return options, stop, fmt.Errorf("embedded: start a server in memory: %w", err)
		}
		addr, stop = server.Addr(), server.Close
	}
	return rueidis.ClientOption{
		InitAddress: []string{addr},
		// miniredis answers CLUSTER SLOTS, and would be taken for a cluster; and
		// it has no client tracking, which the client-side cache needs.
		ForceSingleClient: true,
		DisableCache:      true,
	}, stop, nil
}

// Main is the main function of an example: it calls run, with the options that [Redis] returns and
// for a minute at most, and ends the program with status 1 if that fails.
func Main(name string, run func(ctx context.Context, options rueidis.ClientOption) error) {
	log.SetFlags(0)
	if err := onRedis(run); err != nil {
		log.Fatal(name, ": ", err)
	}
}

func onRedis(run func(context.Context, rueidis.ClientOption) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	options, stop, err := Redis()
	if err != nil {
		return err
	}
	defer stop()
	return run(ctx, options)
}
