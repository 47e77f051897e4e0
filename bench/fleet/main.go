// Command fleet simulates fleets of up to a million clients with the code of package core: the figures of
// docs/benchmarks.md about fleets that no single machine can run.
//
//	cd bench && go run ./fleet                      # simulates, and writes results/fleet-simulation
//	cd bench && go run ./fleet -quick               # the smaller ones only
//	cd bench && go run ./fleet -calibrate           # measures the costs again, with a redis-server of its own
//	cd bench && go run ./fleet -real                # measures real fleets
//	cd bench && go run ./fleet -beside              # simulates these, and puts both side by side
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
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest/standin"
)

func main() {
	worker.Main()
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
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	out := flags.String("out", filepath.Join("results", "fleet-simulation"), "folder of the results, and of costs.json")
	calibrate := flags.Bool("calibrate", false, "measure the costs of the redis-server in PATH, or of that which RLOCK_SERVER names, and write costs.json")
	pinned := flags.Bool("pin", true, "with -calibrate: keep the server on one processor and the clients on another")
	scripts := flags.String("scripts", filepath.Join("..", "rlock", "internal", "wire", "scripts"), "with -calibrate: the folder of rlock's scripts")
	real := flags.Bool("real", false, "measure real fleets, and write real.json")
	beside := flags.Bool("beside", false, "simulate the real fleets only, and write beside.md")
	rounds := flags.Int("rounds", 3, "with -real: how often each is measured")
	quick := flags.Bool("quick", false, "simulate the smaller fleets only")
	only := flags.String("only", "", "simulate one table: one-name, names, crowds, networks, stalls, claim or failover")
	seed := flags.Uint64("seed", 1, "of the simulation")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	progress := func(line string) { fmt.Fprintln(os.Stderr, line) }
	if *real {
		return measureReal(ctx, *out, *rounds, progress)
	}
	if *calibrate {
		return measure(ctx, *scripts, *out, *pinned)
	}
	data, err := os.ReadFile(filepath.Join(*out, "costs.json"))
	if err != nil {
		return fmt.Errorf("fleet: measure the costs first, with -calibrate: %w", err)
	}
	var costs cost.Table
	if err := json.Unmarshal(data, &costs); err != nil {
		return fmt.Errorf("fleet: costs.json: %w", err)
	}
	if err := os.WriteFile(filepath.Join(*out, "results.md"), []byte(index(costs, *seed)), 0o644); err != nil {
		return err
	}
	if *only == "" {
		if err := writeBeside(*out, costs, *seed); err != nil || *beside {
			return err
		}
	}
	all := tables(costs, *seed, *quick)
	if *only != "" {
		all = slices.DeleteFunc(all, func(t table) bool { return t.file != *only })
	}
	debug.SetGCPercent(50) // a million clients that wait take some gigabytes
	results, err := simulate(ctx, all, progress)
	if err != nil {
		return err
	}
	return write(*out, results)
}

// measure measures the costs of a server of its own.
func measure(ctx context.Context, scripts, out string, pinned bool) error {
	addr, stop, err := standin.Redis()
	if err != nil {
		return err
	}
	defer stop()
	costs, err := cost.Measure(ctx, addr, scripts, pinned)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(costs, "", "\t")
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", data)
	return os.WriteFile(filepath.Join(out, "costs.json"), append(data, '\n'), 0o644)
}
