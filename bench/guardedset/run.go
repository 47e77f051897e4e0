package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/suspend"
)

// A run is one form under faults.
type run struct {
	form     form
	lease    time.Duration
	duration time.Duration
	random   *rand.Rand

	locks, data         rueidis.Client // of the lock's server and of the resource's
	lockAddr, valueAddr string
	workers             []*process
	ends                sync.WaitGroup // of faults

	faults map[string]int
}

// A process is a worker with a network of its own to the lock's server.
type process struct {
	number  int
	net     *network.Network
	command *exec.Cmd
	input   *os.File // its end is the worker's

	mu   sync.Mutex // protects following
	busy bool       // a fault is under way
}

// A result is what the resource has counted.
type result struct {
	Library, Form          string
	Seconds                float64
	Writes, Value          int
	Stale, Rejected        int
	Stops, Cuts, Kills     int
	Failovers              int
	LostUpdates, PerSecond float64
}

const workers = 6

// measure plays the run with servers of its own.
func (r *run) measure(ctx context.Context) (result, error) {
	r.faults = make(map[string]int)
	for _, server := range []struct {
		addr   *string
		client *rueidis.Client
	}{{&r.lockAddr, &r.locks}, {&r.valueAddr, &r.data}} {
		addr, stop, err := arena.StartRedis(ctx, "redis-server")
		if err != nil {
			return result{}, err
		}
		defer stop()
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			return result{}, err
		}
		defer client.Close()
		*server.addr, *server.client = addr, client
	}
	if r.form.Form == guarded {
		r.data = r.locks
	}
	for i := range workers {
		n, err := network.Listen(r.lockAddr)
		if err != nil {
			return result{}, err
		}
		defer n.Close()
		p := &process{number: i, net: n}
		if err := r.start(p); err != nil {
			return result{}, err
		}
		r.workers = append(r.workers, p)
	}
	if err := r.await(ctx); err != nil {
		r.end()
		return result{}, err
	}
	began := time.Now()
	before := r.counts(ctx)
	r.disturb(ctx)
	r.ends.Wait()
	took := time.Since(began)
	r.end()
	return r.judge(before, r.counts(ctx), took), ctx.Err()
}

// start starts the worker's process.
func (r *run) start(p *process) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	job := strings.Join([]string{r.form.Library, r.form.Form, strconv.Itoa(p.number), p.net.Addr(), r.valueAddr, r.lease.String()}, "|")
	command := exec.Command(self)
	command.Env = append(os.Environ(), role+"="+job)
	command.Stdin, command.SysProcAttr = in, arena.Ours()
	if err := command.Start(); err != nil {
		_, _ = in.Close(), out.Close()
		return err
	}
	_ = in.Close()
	p.command, p.input = command, out
	return nil
}

// await waits for the first write.
func (r *run) await(ctx context.Context) error {
	for until := time.Now().Add(20 * time.Second); r.counts(ctx)["writes"] == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) || ctx.Err() != nil {
			return fmt.Errorf("guardedset: %s, %s: no write in 20 s", r.form.Library, r.form.Form)
		}
	}
	return nil
}

// counts returns the resource's fields.
func (r *run) counts(ctx context.Context) map[string]int {
	counts := make(map[string]int)
	fields, _ := r.data.Do(ctx, r.data.B().Hgetall().Key(resource).Build()).AsStrMap()
	for field, value := range fields {
		counts[field], _ = strconv.Atoi(value)
	}
	return counts
}

// disturb lets faults meet the worker that has the lock: mostly a stop.
func (r *run) disturb(ctx context.Context) {
	fault := 0
	for end := time.Now().Add(r.duration); time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(r.lease*2/3 + rand.N(r.lease/8))
		p := r.workers[r.counts(ctx)["holder"]%workers]
		if !p.begin() {
			continue
		}
		fault++
		long := r.lease + time.Duration(r.random.Int64N(int64(r.lease)))
		switch {
		case fault%8 == 4:
			r.faults["kill"]++
			r.kill(p)
			p.done()
		case fault%8 == 0:
			r.faults["failover"]++
			r.failOver(ctx)
			p.done()
		case fault%4 == 2:
			r.faults["cut"]++
			p.net.Rule(network.Silence)
			r.later(p, long, p.net.Heal)
		default:
			r.faults["stop"]++
			if err := suspend.Process(p.command.Process); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			process := p.command.Process
			r.later(p, long, func() { _ = suspend.Resume(process) })
		}
	}
}

// later ends a fault.
func (r *run) later(p *process, after time.Duration, end func()) {
	r.ends.Go(func() {
		time.Sleep(after)
		end()
		p.done()
	})
}

func (p *process) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.busy
	p.busy = true
	return !was
}

func (p *process) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
}

// kill ends the worker's process and starts another.
func (r *run) kill(p *process) {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	_ = p.input.Close()
	if err := r.start(p); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// failOver is a failover to a replica that lacks the latest writes: all connections end, and the lock's keys are
// gone. The counter of tokens, and a value beside the lock, were written before.
func (r *run) failOver(ctx context.Context) {
	keys, _ := r.locks.Do(ctx, r.locks.B().Keys().Pattern("*").Build()).AsStrSlice()
	for _, key := range keys {
		if key != resource && !strings.HasPrefix(key, "redisson_lock_token:") {
			_ = r.locks.Do(ctx, r.locks.B().Del().Key(key).Build()).Error()
		}
	}
	for _, p := range r.workers {
		p.net.Cut()
	}
}

// end ends all workers. Those that do not go are killed.
func (r *run) end() {
	var all sync.WaitGroup
	for _, p := range r.workers {
		_ = p.input.Close()
		all.Go(func() {
			kill := time.AfterFunc(3*time.Second, func() { _ = p.command.Process.Kill() })
			defer kill.Stop()
			if err := p.command.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	all.Wait()
}

// judge compares the counts with the value.
func (r *run) judge(before, after map[string]int, took time.Duration) result {
	writes := after["writes"]
	return result{
		Library: r.form.Library, Form: r.form.Form, Seconds: took.Seconds(), Writes: writes, Value: after["v"],
		Stale: after["stale"], Rejected: after["rejected"], LostUpdates: float64(writes - after["v"]),
		PerSecond: float64(writes-before["writes"]) / took.Seconds(),
		Stops:     r.faults["stop"], Cuts: r.faults["cut"], Kills: r.faults["kill"], Failovers: r.faults["failover"],
	}
}
