// Package plan decides when faults begin and end. A plan is a pure function of the seed: the
// same seed, topology and kinds give the same rounds on every machine, so that a run can be
// repeated. Two runs of a plan still differ, since processes and networks have no seed.
//
// A round has one fault alone or up to four together. Single faults come in an order in which
// every kind has its turn before any has a second one.
//
//	|---- round ------------------------------------|
//	  |--- fault -----|                               each begins and ends
//	          |--- another ----------|                at a time of its own
package plan

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/torture/fault"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A Plan makes the rounds of one topology.
type Plan struct {
	Seed     uint64
	Topology stage.Topology
	Kinds    []fault.Kind // at least one
	Scene    fault.Scene
}

// A Round is a group of faults.
type Round struct {
	Number int
	Steps  []Step // in the order in which they begin
}

// A Step is one fault with its time, from the beginning of the round.
type Step struct {
	Kind  fault.Kind
	Fault *fault.Fault
	From  time.Duration
	To    time.Duration
}

const (
	latestBegin = time.Second
	mostAtOnce  = 4
)

// Round returns round number n, from 0. Each call makes its faults anew.
func (p Plan) Round(n int) Round {
	random := p.random(fmt.Sprint("round ", n))
	var kinds []fault.Kind
	if n%2 == 0 {
		kinds = []fault.Kind{p.alone(n / 2)}
	} else {
		for range 2 + random.IntN(mostAtOnce-1) {
			kinds = append(kinds, p.Kinds[random.IntN(len(p.Kinds))])
		}
	}
	r := Round{Number: n}
	for _, kind := range kinds {
		from := upTo(random, latestBegin)
		// From a tenth of a lease to two leases: some are survived, some are not.
		lasts := p.Scene.Lease/10 + upTo(random, 2*p.Scene.Lease-p.Scene.Lease/10)
		r.Steps = append(r.Steps, Step{Kind: kind, Fault: kind.Choose(random, p.Scene), From: from, To: from + lasts})
	}
	slices.SortStableFunc(r.Steps, func(a, b Step) int { return int(a.From - b.From) })
	return r
}

// alone returns the kind whose turn is number n: the kinds are shuffled again whenever each
// has had its turn.
func (p Plan) alone(n int) fault.Kind {
	cycle := p.random(fmt.Sprint("cycle ", n/len(p.Kinds)))
	return p.Kinds[cycle.Perm(len(p.Kinds))[n%len(p.Kinds)]]
}

// random returns a source that depends on the seed, the topology and a purpose.
func (p Plan) random(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, p.Topology, " ", purpose) // never fails
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}

// upTo returns a time between 0 and limit.
func upTo(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit) + 1)).Round(time.Millisecond)
}

// Lasts returns when the last fault ends.
func (r Round) Lasts() (lasts time.Duration) {
	for _, s := range r.Steps {
		lasts = max(lasts, s.To)
	}
	return lasts
}

// String lists the steps.
func (r Round) String() string {
	steps := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		steps[i] = s.String()
	}
	return strings.Join(steps, "; ")
}

func (s Step) String() string {
	return fmt.Sprintf("%v, from %v to %v", s.Fault, s.From, s.To)
}
