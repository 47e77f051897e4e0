// Package arena runs measurements: it starts Redis, the networks in front of it and the
// processes of each contender, and reads their cost from Redis.
//
//	      +-- INFO before and after ------------------------------+
//	      |                                                       v
//	Arena +-- Job --> worker 1 ... n (processes) --> [proxy] --> redis-server
//	      |              |
//	      +<-- Report ---+
//
// During the window of a measurement the arena only sleeps. A worker that fails or hangs is
// ended, and the result has the error; the others go on.
package arena

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest"
)

// An Arena is a Redis and the networks in front of it. One measurement at a time.
type Arena struct {
	Version string // of Redis

	addr     string
	stop     func() // ends the redis-server, if the arena has started it
	redis    rueidis.Client
	others   []other // servers beside it, as many as were needed so far
	run      string  // the prefix of the names of all keys
	measured atomic.Int64
	networks map[string]*network
	idle     map[string][]*redistest.Talk // of contenders' own programs, for the next job
}

// An other is a redis-server beside the first one, for locks over several.
type other struct {
	addr string
	stop func()
}

// A network is a way to Redis.
type network struct {
	addr      string
	roundTrip time.Duration   // as measured
	proxy     *redistest.Talk // nil for the loopback
}

// Open connects to the Redis at addr, or starts one if addr is "". Its data are never
// flushed: names have a prefix with the number of this run, and keys end with their leases.
func Open(ctx context.Context, addr string) (*Arena, error) {
	a := &Arena{addr: addr, run: fmt.Sprintf("bench:%08x", rand.Uint32()), networks: make(map[string]*network), idle: make(map[string][]*redistest.Talk), stop: func() {}}
	var err error
	if addr == "" {
		if a.addr, a.stop, err = redistest.Redis(); err != nil {
			return nil, fmt.Errorf("arena: no Redis: %w (-addr names one)", err)
		}
	}
	a.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{a.addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		a.stop()
		return nil, fmt.Errorf("arena: cannot connect to %s: %w", a.addr, err)
	}
	info, err := a.redis.Do(ctx, a.redis.B().Info().Section("server").Build()).ToString()
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("arena: %w", err)
	}
	if _, err := fmt.Sscanf(info[max(0, strings.Index(info, "redis_version:")):], "redis_version:%s", &a.Version); err != nil {
		a.Version = "unknown"
	}
	return a, nil
}

// Close ends everything that Open and Measure have started.
func (a *Arena) Close() {
	for _, processes := range a.idle {
		for _, p := range processes {
			p.End(5 * time.Second)
		}
	}
	for _, n := range a.networks {
		if n.proxy != nil {
			n.proxy.End(time.Second)
		}
	}
	for _, o := range a.others {
		o.stop()
	}
	a.redis.Close()
	a.stop()
}

// server returns the address of the server of that number, and starts it if necessary. Number
// 0 exists.
func (a *Arena) server(number int) (string, error) {
	if number == 0 {
		return a.addr, nil
	}
	for len(a.others) < number {
		addr, stop, err := redistest.Redis()
		if err != nil {
			return "", err
		}
		a.others = append(a.others, other{addr, stop})
	}
	return a.others[number-1].addr, nil
}

// network returns the network of that round trip to the server of that number, and starts it
// if necessary.
func (a *Arena) network(ctx context.Context, number int, n scenario.Network) (*network, error) {
	name := n.Name
	if number > 0 {
		name = fmt.Sprintf("%s, server %d", n.Name, number)
	}
	if way := a.networks[name]; way != nil {
		return way, nil
	}
	addr, err := a.server(number)
	if err != nil {
		return nil, err
	}
	way := &network{addr: addr}
	if n.RoundTrip > 0 {
		command, err := redistest.Self(worker.Role + "=" + worker.RoleNetwork)
		if err != nil {
			return nil, err
		}
		proxy, err := redistest.Converse(command)
		if err != nil {
			return nil, err
		}
		if err = proxy.Tell(fmt.Sprintf("%s %s", addr, n.RoundTrip)); err == nil {
			way.addr, err = proxy.Hear(setUp)
		}
		if err != nil {
			proxy.End(0)
			return nil, err
		}
		way.proxy = proxy
	}
	if way.roundTrip, err = ping(ctx, way.addr, 0); err != nil {
		return nil, err
	}
	a.networks[name] = way
	return way, nil
}

// RoundTrips returns the round trips of the networks used so far, as measured.
func (a *Arena) RoundTrips() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for name, n := range a.networks {
		all[name] = n.roundTrip
	}
	return all
}

// ping returns the median time of a PING. With a pause between them it is the round trip of a
// client that has slept, as a waiter has: waking takes longer than staying awake.
func ping(ctx context.Context, addr string, pause time.Duration) (time.Duration, error) {
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return 0, fmt.Errorf("arena: ping: %w", err)
	}
	defer redis.Close()
	times := make([]time.Duration, 30)
	for i := range times {
		time.Sleep(pause)
		began := time.Now()
		if err := redis.Do(ctx, redis.B().Ping().Build()).Error(); err != nil {
			return 0, fmt.Errorf("arena: ping: %w", err)
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
