package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
)

// A setting is the lock's Redis of a run, and the faults there.
type setting interface {
	// open starts Redis, and returns where it is.
	open() (place, error)
	// way returns a worker's way there.
	way(worker int) (place, error)
	// fault lets the nth fault happen, counted from 1, and returns its name, "" for none. What ends it runs in r.ends.
	fault(ctx context.Context, r *run, n int) string
	close()
}

// A scenario is a table of the results.
type scenario struct {
	name string
	time time.Duration // of the faults, if each lasts no longer
	does func(form) bool
	make func() setting
}

func scenarios() []scenario {
	return []scenario{
		{name: holders, time: 48 * time.Second, does: func(f form) bool { return f.Form != synced }, make: func() setting { return new(ofHolders) }},
		{name: waiters, time: 24 * time.Second, does: func(f form) bool { return f.Form == bare }, make: func() setting { return new(ofWaiters) }},
		{name: failovers, time: 60 * time.Second, does: func(form) bool { return true }, make: func() setting { return new(ofSentinel) }},
	}
}

// The scenarios, in the table's words.
const (
	holders   = "holders"   // the process that has the lock is stopped, cut off, killed
	waiters   = "waiters"   // one that has not is stopped
	failovers = "failovers" // Sentinel fails over
)

// A single is one server, and a network of each worker.
type single struct {
	addr     string
	networks []*network.Network
	stop     func()
}

func (s *single) open() (p place, err error) {
	s.addr, s.stop, err = redistest.Redis()
	return place{Addrs: []string{s.addr}}, err
}

func (s *single) way(int) (place, error) {
	n, err := network.Listen(s.addr)
	if err != nil {
		return place{}, err
	}
	s.networks = append(s.networks, n)
	return place{Addrs: []string{n.Addr()}}, nil
}

func (s *single) close() {
	for _, n := range s.networks {
		n.Close()
	}
	if s.stop != nil {
		s.stop()
	}
}

// ofHolders has faults that meet the worker that has the lock: mostly a stop.
type ofHolders struct{ single }

func (s *ofHolders) fault(ctx context.Context, r *run, n int) string {
	wait(ctx, r.lease*2/3+rand.N(r.lease/8))
	p := r.workers[r.holder(ctx)]
	if !p.begin() {
		return ""
	}
	switch n % 4 {
	case 0:
		p.Kill()
		r.check(p.start(r))
		p.done()
		return "kills"
	case 2:
		s.networks[p.number].Rule(network.Silence)
		r.later(p, s.networks[p.number].Heal)
		return "cuts"
	}
	r.later(p, p.stop())
	return "stops"
}

// ofWaiters stops workers that do not have the lock.
type ofWaiters struct{ single }

func (s *ofWaiters) fault(ctx context.Context, r *run, _ int) string {
	wait(ctx, r.lease*2/3+rand.N(r.lease/8))
	p := r.workers[(r.holder(ctx)+1+rand.N(len(r.workers)-1))%len(r.workers)]
	if !p.begin() {
		return ""
	}
	r.later(p, p.stop())
	return "stops"
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
