package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A sort is a sort of fault: a table of the results.
type sort struct {
	name     string
	about    string
	topology stage.Topology
	does     func(form) bool
	workers  int
	leases   int           // by how much the lease is longer than usual
	pause    time.Duration // the longest between two sections of a worker
	strike   func(ctx context.Context, r *run) error
}

// sorts are all that there are.
var sorts = []sort{
	ofWorker("holder stopped", "A process that has read and not yet written is stopped (SIGSTOP) for one to two leases.", onOne, func(ctx context.Context, r *run) error {
		for until := time.Now().Add(r.lease); ; {
			before := r.look(ctx)
			w := r.stage.Workers[before.holder()]
			if err := w.Pause(); err != nil {
				return err
			}
			if after := r.look(ctx); after["open"] == 1 && after.holder() == before.holder() && after["writes"] == before["writes"] || time.Now().After(until) {
				r.leaseOrTwo(ctx)
				return w.Resume()
			}
			if err := w.Resume(); err != nil { // it had written
				return err
			}
		}
	}),
	ofWorker("holder cut off", "The process that has the lock is cut off from Redis for one to two leases.", onOne, func(ctx context.Context, r *run) error {
		net := r.nets[r.look(ctx).holder()]
		net.Rule(network.Silence)
		r.leaseOrTwo(ctx)
		net.Heal()
		return nil
	}),
	ofWorker("holder killed", "The process that has the lock is killed (SIGKILL), and another starts.", onOne, func(ctx context.Context, r *run) error {
		w := r.stage.Workers[r.look(ctx).holder()]
		w.Kill()
		return w.Revive()
	}),
	ofWorker("waiter stopped", "A process that has not the lock is stopped for one to two leases: what that costs the others.", isBare, func(ctx context.Context, r *run) error {
		w := r.stage.Workers[(r.look(ctx).holder()+1+r.random.IntN(r.sort.workers-1))%r.sort.workers]
		if err := w.Pause(); err != nil {
			return err
		}
		r.leaseOrTwo(ctx)
		return w.Resume()
	}),
	ofCommands("command lost", "The connection ends before one of the next four commands of one of two processes is executed.", network.Request, network.Cut, nil),
	ofCommands("reply lost", "The connection ends after it was executed.", network.Reply, network.Cut, nil),
	ofCommands("command repeated", "It is executed again 50 ms, half a second or a lease later.", network.Request, network.Pass, func(ctx context.Context, r *run, args []string) {
		wait(ctx, []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, r.lease}[r.random.IntN(3)])
		if !strings.Contains(strings.ToLower(args[0]), "subscribe") {
			_ = r.stage.Do(0, args...).Error() // it may be refused
		}
	}),
	ofCommands("command late", "It is executed 700 ms late.", network.Request, network.Hold, func(ctx context.Context, _ *run, _ []string) {
		wait(ctx, 700*time.Millisecond)
	}),
	{
		name: "failover",
		about: "Redis is a primary with two replicas and three sentinels. The primary is stopped or killed until a replica is in its\n" +
			"  place. One that was stopped then takes the writes of clients that have not heard.",
		topology: stage.Sentinel, does: func(form) bool { return true }, workers: 6, leases: 1,
		strike: func(ctx context.Context, r *run) error {
			kinds := stage.For(stage.Sentinel, "pause-primary", "kill-primary")
			f := kinds[r.happened%len(kinds)].Choose(r.random, stage.Scene{Names: []string{name}})
			before := r.stage.Primaries()
			if err := f.Inject(r.stage); err != nil {
				return err
			}
			for until := time.Now().Add(promotion); ctx.Err() == nil && time.Now().Before(until); wait(ctx, 20*time.Millisecond) {
				if slices.ContainsFunc(r.stage.Primaries(), func(node int) bool { return !slices.Contains(before, node) }) {
					break
				}
			}
			if err := f.Heal(r.stage); err != nil {
				return err
			}
			return r.stage.Ready()
		},
	},
}

// promotion is how long the sentinels may take for a failover.
const promotion = 30 * time.Second

// ofWorker is a fault of one of six processes, each of which has a network of its own.
func ofWorker(name, about string, does func(form) bool, strike func(context.Context, *run) error) sort {
	return sort{name, about, stage.Standalone, does, 6, 1, 0, strike}
}

// onOne reports whether a form is for one server.
func onOne(f form) bool { return f.text != synced }

func isBare(f form) bool { return f.text == bare }

// ofCommands is a fault of one of the next commands of one of two processes, between which the lock
// is also free. Then is what follows when the command is met.
func ofCommands(name, about string, at network.Stage, fate network.Fate, then func(context.Context, *run, []string)) sort {
	return sort{name, about, stage.Standalone, isBare, 2, 2, 100 * time.Millisecond, func(ctx context.Context, r *run) error {
		net, nth, met := r.nets[r.random.IntN(len(r.nets))], 1+r.random.IntN(4), make(chan []string, 1)
		net.Rule(func(f network.Frame) network.Fate {
			if f.Stage != at || len(f.Args) == 0 || slices.Contains(setUp, strings.ToLower(f.Args[0])) {
				return network.Pass
			}
			if nth--; nth != 0 {
				return network.Pass
			}
			met <- slices.Clone(f.Args)
			return fate
		})
		select {
		case args := <-met:
			if then != nil {
				then(ctx, r, args)
			}
		case <-time.After(time.Second):
		}
		net.Heal() // which delivers what it holds
		return nil
	}}
}

// setUp is what a client sends before it locks.
var setUp = []string{"hello", "client", "ping", "info", "command", "cluster", "auth", "select", "script", "quit", "role", "exec", "multi"}

func (r *run) leaseOrTwo(ctx context.Context) { wait(ctx, r.lease+upTo(r.random, r.lease)) }

func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d) + 1))
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
