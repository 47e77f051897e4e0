package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A plan makes the rounds of one topology: it decides when faults begin and end. It is a pure
// function of the seed, so that a run can be repeated. Two runs of a plan still differ, since
// processes and networks have no seed.
type plan struct {
	seed     uint64
	topology stage.Topology
	kinds    []stage.Kind // at least one
	scene    stage.Scene
}

// A round is one fault alone, or up to four together, each of which begins and ends at a time of
// its own.
type round struct {
	number int
	steps  []step // in the order in which they begin
}

// A step is one fault with its time, from the beginning of the round.
type step struct {
	kind     stage.Kind
	fault    *stage.Fault
	from, to time.Duration
}

const (
	latestBegin = time.Second
	mostAtOnce  = 4
)

// round returns round number n, from 0. Each call makes its faults anew. Every second round has a
// single fault; these come in an order in which every kind has its turn before any has a second
// one.
func (p plan) round(n int) round {
	random := p.random(fmt.Sprint("round ", n))
	var kinds []stage.Kind
	if n%2 == 0 {
		turn := n / 2
		cycle := p.random(fmt.Sprint("cycle ", turn/len(p.kinds)))
		kinds = append(kinds, p.kinds[cycle.Perm(len(p.kinds))[turn%len(p.kinds)]])
	} else {
		for range 2 + random.IntN(mostAtOnce-1) {
			kinds = append(kinds, p.kinds[random.IntN(len(p.kinds))])
		}
	}
	upTo := func(limit time.Duration) time.Duration {
		return time.Duration(random.Int64N(int64(limit) + 1)).Round(time.Millisecond)
	}
	r := round{number: n}
	for _, kind := range kinds {
		from := upTo(latestBegin)
		// From a tenth of a lease to two leases: some are survived, some are not.
		lasts := p.scene.Lease/10 + upTo(2*p.scene.Lease-p.scene.Lease/10)
		r.steps = append(r.steps, step{kind, kind.Choose(random, p.scene), from, from + lasts})
	}
	slices.SortStableFunc(r.steps, func(a, b step) int { return int(a.from - b.from) })
	return r
}

// random returns a source that depends on the seed, the topology and a purpose.
func (p plan) random(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, p.topology, " ", purpose) // never fails
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

func (r round) String() string {
	var steps []string
	for _, s := range r.steps {
		steps = append(steps, fmt.Sprintf("%v, from %v to %v", s.fault, s.from, s.to))
	}
	return strings.Join(steps, "; ")
}
