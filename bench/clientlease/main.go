// Command clientlease says what a client lease would save, and what it would cost: the figures
// of docs/client-leases.md.
//
//	cd bench && go run ./clientlease                    # measures a redis-server for some 20 s, then simulates
//	cd bench && go run ./clientlease -costs FILE        # simulates with costs that were measured before
//
// It starts a server of its own (-server names another program; HPEXPIRE needs Redis 7.4 or
// Valkey 9), and writes costs.json, results.md and pictures to results/clientlease.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/clientlease/cost"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("clientlease", flag.ContinueOnError)
	server := flags.String("server", "redis-server", "the server to measure, by name or path")
	locks := flags.Int("locks", 100_000, "how many locks to measure with")
	known := flags.String("costs", "", "a costs.json to simulate with, instead of measuring")
	out := flags.String("out", filepath.Join("results", "clientlease"), "folder for the results")
	seed := flags.Uint64("seed", 1, "of the simulation")
	largest := flags.Int("largest", 100_000_000, "the largest number of held locks to simulate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var costs cost.Table
	var err error
	if *known != "" {
		var data []byte
		if data, err = os.ReadFile(*known); err == nil {
			err = json.Unmarshal(data, &costs)
		}
	} else {
		costs, err = measure(ctx, *server, *locks)
	}
	if err != nil {
		return err
	}
	return write(*out, simulate(costs, *largest, *seed))
}

// measure measures a server of its own.
func measure(ctx context.Context, program string, locks int) (costs cost.Table, err error) {
	addr, stop, err := arena.StartRedis(ctx, program)
	if err != nil {
		return costs, err
	}
	defer stop()
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1, AlwaysPipelining: true})
	if err != nil {
		return costs, err
	}
	defer redis.Close()
	return cost.Measure(ctx, redis, locks)
}
