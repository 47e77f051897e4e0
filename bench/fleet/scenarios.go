package main

import (
	"fmt"
	"time"

	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/bench/fleet/sim"
)

// A row is one simulation.
type row struct {
	name string
	sim.Fleet
}

// A table has the rows that answer one question.
type table struct {
	file, name, asks string // the file without its end
	columns          []column
	rows             []row
}

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// halfMillisecond is the network of the tables that name no other.
var halfMillisecond = sim.Network{OneWay: 250 * us}

// Clients that poll, as redislock does with a backoff of 5 ms, and redsync by default. A timer is late by some, so that those
// of several clients do not keep step.
var (
	redislock = &sim.Polling{Least: 5 * ms, Most: 5300 * us, Lease: 30 * time.Second}
	redsync   = &sim.Polling{Least: 50 * ms, Most: 250 * ms, Lease: 30 * time.Second}
)

// tables returns all that is simulated; with quick without what takes more than some seconds.
func tables(costs cost.Table, seed uint64, quick bool) []table {
	all := []table{crowd(), singles(), crowds(), networks(), stalling(), claims(), failover()}
	for i := range all {
		t := &all[i]
		kept := t.rows[:0]
		for _, r := range t.rows {
			r.Costs, r.Seed = costs, seed
			if r.Overhead == 0 {
				r.Overhead = us
			}
			if r.Network == (sim.Network{}) {
				r.Network = halfMillisecond
			}
			if r.Section == 0 {
				r.Section = ms
			}
			if r.For == 0 {
				r.Warm, r.For = 2*time.Second, 20*time.Second
			}
			if !quick || r.Clients*max(r.Callers, 1) <= 2_000 && r.For < time.Minute {
				kept = append(kept, r)
			}
		}
		t.rows = kept
	}
	return all
}

// The sizes of a crowd that the first picture shows.
var crowdSizes = []int{10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 60_000, 100_000}

func crowd() table {
	t := table{
		file: "one-name",
		name: "One name",
		asks: "All clients want one lock, again and again: sections of 1 ms, Redis 0.5 ms away. The lock passes from client to client; while it does, each client that waits looks " +
			"every two seconds, or polls. The clients begin within 20 seconds, or all at once.",
		columns: []column{rate, p50, p99, commands, busy, backlog, waiting},
	}
	for _, n := range crowdSizes {
		f := sim.Fleet{Clients: n, Begin: 20 * time.Second, Warm: 30 * time.Second, For: 10 * time.Second}
		t.rows = append(t.rows, row{"rlock", f})
		f.Begin, f.Warm = 0, 6*time.Second
		if n >= 1000 && n <= 30_000 {
			t.rows = append(t.rows, row{"rlock, all at once", f})
		}
		if n <= 10_000 {
			f.Polling = redislock
			t.rows = append(t.rows, row{"SET NX every 5 ms", f})
			f.Polling = redsync
			t.rows = append(t.rows, row{"SET NX every 50 to 250 ms", f})
		}
	}
	return t
}

func singles() table {
	t := table{
		file:    "names",
		name:    "Names of one's own, and any name",
		asks:    "Each client locks about once a second, 1 ms each: a name of its own, or of as many names as there are clients any one. How many servers does that take?",
		columns: []column{clients, shards, rate, p50, p99, commands, busy, backlog},
	}
	for _, s := range []struct{ clients, shards int }{{1000, 1}, {10_000, 1}, {40_000, 1}, {60_000, 1}, {80_000, 1}, {100_000, 1}, {100_000, 4}, {100_000, 16}, {1_000_000, 64}} {
		f := sim.Fleet{Clients: s.clients, Names: s.clients, Shards: s.shards, Home: 100, Pause: time.Second, Warm: 2 * time.Second, For: 3 * time.Second}
		if s.clients == 1_000_000 {
			f.Warm, f.For = 300*ms, 500*ms
		}
		t.rows = append(t.rows, row{"own", f})
		if s.clients < 1_000_000 {
			any := f
			any.Home = 0
			t.rows = append(t.rows, row{"any", any})
		}
		if s.clients == 1000 || s.clients == 100_000 && s.shards > 1 {
			linger := f
			linger.Linger, linger.Home = 10*time.Second, 95
			t.rows = append(t.rows, row{"95 % own", withHome(f, 95)}, row{"95 % own, Linger 10 s", linger})
		}
	}
	return t
}

func withHome(f sim.Fleet, home int) sim.Fleet {
	f.Home = home
	return f
}

func crowds() table {
	t := table{
		file:    "crowds",
		name:    "Crowds",
		asks:    "Many names, and for each a crowd that never rests: as many clients as waiters. Sections of 1 ms.",
		columns: []column{clients, names, shards, rate, p50, p99, commands, busy, backlog},
	}
	for _, s := range []struct{ clients, callers, names, shards int }{
		{100, 1, 10, 1}, {1000, 1, 100, 1}, {1000, 1, 100, 4}, {10_000, 1, 1000, 16}, {100_000, 1, 1000, 64}, {1_000_000, 1, 100_000, 64},
		{20, 50, 100, 1}, {1000, 32, 1000, 16},
	} {
		f := sim.Fleet{Clients: s.clients, Callers: s.callers, Names: s.names, Shards: s.shards, Warm: time.Second, For: 3 * time.Second}
		switch {
		case s.clients >= 100_000:
			f.Begin, f.Warm, f.For = 300*ms, 500*ms, 300*ms
		case s.clients*s.callers >= 10_000:
			f.Warm, f.For = time.Second, 500*ms
		}
		t.rows = append(t.rows, row{fmt.Sprintf("%d callers each", s.callers), f})
	}
	return t
}

func networks() table {
	t := table{
		file:    "networks",
		name:    "Networks",
		asks:    "64 clients of one name, 1 ms sections. Jitter is exponential, in addition; with a tail one packet of a thousand takes 200 ms more, as one that TCP sends again.",
		columns: []column{rate, p50, p99, commands, idle, losses},
	}
	const tail = 200 * ms
	for _, n := range []struct {
		name string
		sim.Network
	}{
		{"0.1 ms", sim.Network{OneWay: 50 * us}},
		{"0.5 ms", halfMillisecond},
		{"0.5 ms, jitter 0.1 ms", sim.Network{OneWay: 250 * us, Jitter: 50 * us}},
		{"0.5 ms, jitter 1 ms", sim.Network{OneWay: 250 * us, Jitter: 500 * us}},
		{"0.5 ms, tail", sim.Network{OneWay: 250 * us, Tail: 0.001, TailTime: tail}},
		{"5 ms, jitter 1 ms, tail", sim.Network{OneWay: 2500 * us, Jitter: 500 * us, Tail: 0.001, TailTime: tail}},
		{"50 ms", sim.Network{OneWay: 25 * ms}},
	} {
		f := sim.Fleet{Clients: 64, Network: n.Network, Warm: 5 * time.Second, For: 50 * time.Second}
		t.rows = append(t.rows, row{n.name, f})
		f.Polling = redislock
		t.rows = append(t.rows, row{n.name + ": SET NX every 5 ms", f})
	}
	return t
}

// The ways in which clients stall.
var stallings = []struct {
	name string
	sim.Stalls
}{
	{"none", sim.Stalls{}},
	{"10 ms every second", sim.Stalls{Every: time.Second, For: 10 * ms}},
	{"50 ms every second", sim.Stalls{Every: time.Second, For: 50 * ms}},
	{"100 ms every 10 s", sim.Stalls{Every: 10 * time.Second, For: 100 * ms}},
	{"1 s every minute", sim.Stalls{Every: time.Minute, For: time.Second}},
	{"5 s every ten minutes", sim.Stalls{Every: 10 * time.Minute, For: 5 * time.Second}},
	{"60 s every hour", sim.Stalls{Every: time.Hour, For: time.Minute}},
}

func stalling() table {
	t := table{
		file: "stalls",
		name: "Clients that stall",
		asks: "Clients of one name, 1 ms sections. Each stalls now and then, each by itself: a garbage collection, a throttled container, a machine that is moved. A client that is granted the " +
			"lock in a stall keeps the others waiting, for a claim at most; one that polls keeps it only if it stalls in its section.",
		columns: []column{rate, p50, p99, idle, losses},
	}
	for _, n := range []int{8, 64, 512} {
		for _, st := range stallings {
			f := sim.Fleet{Clients: n, Stalls: st.Stalls, Warm: 5 * time.Second, For: 200 * time.Second}
			t.rows = append(t.rows, row{st.name, f})
			if n == 64 {
				f.Polling, f.For = redislock, 60*time.Second
				t.rows = append(t.rows, row{st.name + ": SET NX every 5 ms", f})
			}
		}
	}
	return t
}

// claimLengths are those of the second picture.
var claimLengths = []time.Duration{250 * ms, 500 * ms, time.Second, 2 * time.Second, 4 * time.Second}

func claims() table {
	t := table{
		file: "claim",
		name: "The claim",
		asks: "By the length of the claim, which the protocol fixes at two seconds, and by the time between two looks, which is as long today. A shorter claim costs less when a client is granted the lock in a stall. " +
			"But a grant is trusted from the last look on, and one of which no more than a half is left costs a look before the hold.",
		columns: []column{claim, looks, rate, p99, commands, busy, idle, losses},
	}
	for _, s := range []struct {
		name string
		sim.Fleet
	}{
		{"512 x 1", sim.Fleet{Clients: 512, For: 20 * time.Second}},
		{"2000 x 1", sim.Fleet{Clients: 2000, For: 20 * time.Second}},
		{"64 x 1, 5 ms away, jitter and tail", sim.Fleet{Clients: 64, Network: sim.Network{OneWay: 2500 * us, Jitter: 500 * us, Tail: 0.001, TailTime: 200 * ms}, For: 50 * time.Second}},
		{"64 x 1, 1 s every minute", sim.Fleet{Clients: 64, Stalls: sim.Stalls{Every: time.Minute, For: time.Second}, For: 300 * time.Second}},
		{"64 x 1, 5 s every ten minutes", sim.Fleet{Clients: 64, Stalls: sim.Stalls{Every: 10 * time.Minute, For: 5 * time.Second}, For: 500 * time.Second}},
		{"512 x 1, 5 s every ten minutes", sim.Fleet{Clients: 512, Stalls: sim.Stalls{Every: 10 * time.Minute, For: 5 * time.Second}, For: 200 * time.Second}},
	} {
		s.Warm = 5 * time.Second
		for part, name := range []string{s.name, s.name + "; a look each half claim"} {
			for _, c := range claimLengths {
				f := s.Fleet
				f.Claim, f.Look = c, c/time.Duration(1+part)
				t.rows = append(t.rows, row{name, f})
			}
		}
	}
	return t
}

func failover() table {
	t := table{
		file: "failover",
		name: "A failover in the middle",
		asks: "64 clients on one server, and on 16 servers of which one fails: it is gone for a second, and a replica takes over that lacks the latest 50 ms. Sections in each of the seconds around it: " +
			"the third begins with the failure, and the fourth with the replica.",
		columns: []column{perSecond, p99, losses, overlaps},
	}
	down := sim.Failover{At: 5 * time.Second, For: time.Second, Lag: 50 * ms}
	base := sim.Fleet{Clients: 64, Failover: down, Warm: time.Second, For: 11 * time.Second}
	t.rows = append(t.rows, row{"one name", base})
	f := base
	f.Polling = redislock
	t.rows = append(t.rows, row{"one name: SET NX every 5 ms", f})
	f = base
	f.Clients, f.Names, f.Shards, f.Pause = 1000, 1000, 16, 10*ms
	t.rows = append(t.rows, row{"1000 clients, 1000 names, 16 shards", f})
	f.Callers, f.Linger, f.Home = 2, 10*time.Second, 95
	t.rows = append(t.rows, row{"the same with two callers each, 95 % own names, Linger", f})
	return t
}
