package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/redistest"
)

const (
	// headStart is the time between the start command and the begin of the work.
	headStart = 20 * time.Millisecond
	// setUp is the longest that a worker may take to be ready: to take 100 000 locks at a round
	// trip of 2 ms takes some time.
	setUp = 2 * time.Minute
	// overtime is how late the report of a worker may be.
	overtime = time.Minute
)

// An arena is Redis and the networks in front of it. It runs one measurement at a time, and only
// sleeps meanwhile:
//
//	      +-- INFO before and after ------------------------------+
//	      |                                                       v
//	arena +-- job --> worker 1 ... n (processes) --> [network] --> redis-server
//	      |              |
//	      +<-- stats ----+
type arena struct {
	version  string // of Redis
	redis    rueidis.Client
	servers  []string                     // the addresses of those that were needed so far
	ways     map[string]*way              // to a server, by its network and number
	idle     map[string][]*redistest.Talk // JVMs, which are kept for the next job, by the command
	stops    []func()
	run      string // the prefix of the names of all keys
	measured int
}

// A way leads to Redis over a network.
type way struct {
	addr      string
	roundTrip time.Duration // as measured
}

// openArena connects to the Redis at addr, or starts one if addr is "". Its data are never flushed:
// names have a prefix with the number of this run, and keys end with their leases.
func openArena(ctx context.Context, addr string) (a *arena, err error) {
	a = &arena{run: fmt.Sprintf("bench:%08x", rand.Uint32()), ways: make(map[string]*way), idle: make(map[string][]*redistest.Talk), version: "unknown"}
	if addr != "" {
		a.servers = []string{addr}
	}
	if addr, err = a.server(0); err != nil {
		return nil, fmt.Errorf("bench: no Redis: %w (-addr names one)", err)
	}
	if a.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}); err != nil {
		a.close()
		return nil, err
	}
	a.stops = append(a.stops, a.redis.Close)
	info, err := a.redis.Do(ctx, a.redis.B().Info().Section("server").Build()).ToString()
	_, _ = fmt.Sscanf(info[max(0, strings.Index(info, "redis_version:")):], "redis_version:%s", &a.version)
	return a, err
}

// close ends all that was started.
func (a *arena) close() {
	for _, processes := range a.idle {
		for _, p := range processes {
			p.End(5 * time.Second)
		}
	}
	for _, stop := range slices.Backward(a.stops) {
		stop()
	}
}

// server returns the address of the server of that number, and starts it if necessary.
func (a *arena) server(number int) (string, error) {
	for len(a.servers) <= number {
		addr, stop, err := redistest.Redis()
		if err != nil {
			return "", err
		}
		a.servers, a.stops = append(a.servers, addr), append(a.stops, stop)
	}
	return a.servers[number], nil
}

// way returns the way over a network to the server of that number, and makes it if necessary.
func (a *arena) way(ctx context.Context, n distance, number int) (*way, error) {
	name := n.String()
	if number > 0 {
		name = fmt.Sprintf("%s, server %d", n, number)
	}
	if w := a.ways[name]; w != nil {
		return w, nil
	}
	addr, err := a.server(number)
	if err != nil {
		return nil, err
	}
	w := &way{addr: addr}
	if n > 0 {
		command, err := redistest.Self(role + "=" + roleNetwork)
		if err != nil {
			return nil, err
		}
		proxy, err := redistest.Converse(command)
		if err != nil {
			return nil, err
		}
		a.stops = append(a.stops, func() { proxy.End(time.Second) })
		if err := proxy.Tell(fmt.Sprint(addr, " ", int64(n))); err != nil {
			return nil, err
		}
		if w.addr, err = proxy.Hear(setUp); err != nil {
			return nil, err
		}
	}
	if w.roundTrip, err = ping(ctx, w.addr, 0); err != nil {
		return nil, err
	}
	a.ways[name] = w
	return w, nil
}

// ping returns the median time of a PING. With a pause before each the client sleeps in between, as a
// waiter does: a client that has to wake up takes longer than one that stays awake.
func ping(ctx context.Context, addr string, pause time.Duration) (time.Duration, error) {
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return 0, err
	}
	defer redis.Close()
	times := make([]time.Duration, 30)
	for i := range times {
		time.Sleep(pause)
		began := time.Now()
		if err := redis.Do(ctx, redis.B().Ping().Build()).Error(); err != nil {
			return 0, err
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// A result is one contender's figures in one cell, over all its rounds.
type result struct {
	scenario  scenario
	cell      cell
	contender contender
	skipped   string // the reason why the contender takes no part
	failed    string // the error of a round; the figures are those of the rounds before

	rounds           int
	roundTrip        time.Duration // of the network, as measured
	elapsed          time.Duration // of all rounds
	stats            stats
	fewest, most     int64 // sections of a process
	sent             int64 // commands of the clients
	served, redisCPU time.Duration
	gone             int64 // keys of held locks that were missing at the end
}

// measure adds a round to the result. An error is noted in it; workers that hang are ended.
func (a *arena) measure(ctx context.Context, r *result) {
	if err := a.round(ctx, r, r.cell.job); err != nil {
		r.failed, _, _ = strings.Cut(err.Error(), "\n")
	}
}

func (a *arena) round(ctx context.Context, r *result, j job) (err error) {
	for i, n := range append([]distance{r.cell.network}, r.cell.others...) {
		w, err := a.way(ctx, n, i)
		if err != nil {
			return err
		}
		j.Addrs = append(j.Addrs, w.addr)
		if i == 0 {
			r.roundTrip = w.roundTrip
		}
	}
	if r.cell.pause > 0 {
		if r.roundTrip, err = ping(ctx, j.Addrs[0], r.cell.pause); err != nil {
			return err
		}
	}
	a.measured++
	j.Contender, j.Kind, j.Prefix = r.contender.name, r.contender.kind, fmt.Sprintf("%s:%d", a.run, a.measured)
	if j.Ground, err = createGround(j.Locks); err != nil {
		return err
	}
	defer func() { _ = os.Remove(j.Ground) }()

	workers, program, err := a.ready(r.contender, j)
	defer func() {
		if err == nil && r.contender.java != nil {
			a.idle[program] = append(a.idle[program], workers...)
			return
		}
		for _, w := range workers {
			w.End(5 * time.Second)
		}
	}()
	if err != nil {
		return err
	}
	before, err := look(ctx, a.redis)
	if err != nil {
		return err
	}
	begin := time.Now().Add(headStart)
	for _, w := range workers {
		if err := w.Tell(strconv.FormatInt(begin.UnixNano(), 10)); err != nil {
			return err
		}
	}
	time.Sleep(time.Until(begin.Add(j.Duration)))
	after, err := look(ctx, a.redis)
	if err != nil {
		return err
	}
	if j.Hold {
		if r.gone, err = a.gone(ctx, j, r.contender.key); err != nil {
			return err
		}
		for _, w := range workers {
			if err := w.Tell("release"); err != nil {
				return err
			}
		}
	}
	var fewest, most int64
	for i, w := range workers {
		line, err := w.Hear(overtime)
		if err != nil {
			return err
		}
		var s stats
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return fmt.Errorf("bench: report: %w", err)
		}
		if i == 0 {
			fewest, most = s.Sections, s.Sections
		}
		fewest, most = min(fewest, s.Sections), max(most, s.Sections)
		r.stats.add(&s)
	}
	r.rounds++
	r.elapsed += j.Duration
	r.fewest += fewest
	r.most += most
	r.redisCPU += after.cpu - before.cpu
	for _, command := range r.contender.sends {
		r.sent += after.calls[command] - before.calls[command]
		r.served += after.times[command] - before.times[command]
	}
	return nil
}

// ready starts the workers of a job, all at once, and returns when all are ready. program is the same
// for JVMs that can do each other's jobs.
func (a *arena) ready(c contender, j job) (workers []*redistest.Talk, program string, err error) {
	start := c.java
	if start == nil {
		start = func() (*exec.Cmd, error) { return redistest.Self(role + "=" + roleWorker) }
	}
	for j.Process = range j.Processes {
		command, err := start()
		if err != nil {
			return workers, program, err
		}
		program = strings.Join(command.Args, " ")
		var w *redistest.Talk
		if idle := a.idle[program]; len(idle) > 0 {
			w, a.idle[program] = idle[0], idle[1:]
		} else if w, err = redistest.Converse(command); err != nil {
			return workers, program, err
		}
		workers = append(workers, w)
		line, err := json.Marshal(j)
		if err == nil {
			err = w.Tell(string(line))
		}
		if err != nil {
			return workers, program, err
		}
	}
	for _, w := range workers {
		_, failed := w.Hear(setUp)
		err = errors.Join(err, failed)
	}
	return workers, program, err
}

// gone returns how many of the held locks have no key in Redis.
func (a *arena) gone(ctx context.Context, j job, key string) (n int64, err error) {
	for first := 0; first < j.Locks; first += 1000 {
		var asks []rueidis.Completed
		for lock := first; lock < min(first+1000, j.Locks); lock++ {
			asks = append(asks, a.redis.B().Exists().Key(fmt.Sprint(key, j.Prefix, ":", lock)).Build())
		}
		for _, answer := range a.redis.DoMulti(ctx, asks...) {
			exists, err := answer.AsInt64()
			if err != nil {
				return n, fmt.Errorf("bench: held locks: %w", err)
			}
			n += 1 - exists
		}
	}
	return n, nil
}

// A snapshot is the work of Redis so far.
type snapshot struct {
	calls map[string]int64         // of each command
	times map[string]time.Duration // their time; a script's includes its commands'
	cpu   time.Duration
	bytes int64 // received
}

func look(ctx context.Context, redis rueidis.Client) (snapshot, error) {
	s := snapshot{calls: make(map[string]int64), times: make(map[string]time.Duration)}
	info, err := redis.Do(ctx, redis.B().Info().Section("commandstats", "cpu", "stats").Build()).ToString()
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if command, ok := strings.CutPrefix(key, "cmdstat_"); ok {
			var calls, micros int64
			_, _ = fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &micros)
			s.calls[command], s.times[command] = calls, time.Duration(micros)*time.Microsecond
		}
		switch key {
		case "used_cpu_sys", "used_cpu_user":
			seconds, _ := strconv.ParseFloat(value, 64)
			s.cpu += time.Duration(seconds * float64(time.Second))
		case "total_net_input_bytes":
			s.bytes, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return s, err
}
