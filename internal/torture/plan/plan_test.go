package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/torture/fault"
	"github.com/go-rlock/rlock/internal/torture/plan"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

var scene = fault.Scene{Workers: 4, Names: []string{"a", "b", "c"}, Lease: 1500 * time.Millisecond}

func planOf(seed uint64, topology stage.Topology) plan.Plan {
	return plan.Plan{Seed: seed, Topology: topology, Kinds: fault.For(topology), Scene: scene}
}

// text returns the text of the first rounds.
func text(p plan.Plan, rounds int) (list []string) {
	for n := range rounds {
		list = append(list, p.Round(n).String())
	}
	return list
}

func TestASeedRepeatsThePlan(t *testing.T) {
	for _, topology := range stage.Topologies() {
		p := planOf(7, topology)
		assert.Equal(t, text(p, 200), text(planOf(7, topology), 200), topology)
		assert.Equal(t, p.Round(150).String(), planOf(7, topology).Round(150).String(), "a round does not depend on those before")
	}
}

func TestSeedsAndTopologiesDiffer(t *testing.T) {
	assert.NotEqual(t, text(planOf(7, stage.AOF), 20), text(planOf(8, stage.AOF), 20))
	one, other := planOf(7, stage.AOF), planOf(7, stage.Standalone)
	other.Kinds = one.Kinds
	assert.NotEqual(t, text(one, 20), text(other, 20))
}

func TestEveryKindIsAloneOnceBeforeAnyIsTwice(t *testing.T) {
	for _, topology := range stage.Topologies() {
		p := planOf(3, topology)
		for cycle := range 3 {
			seen := make(map[string]int)
			for i := range p.Kinds {
				r := p.Round(2 * (cycle*len(p.Kinds) + i))
				require.Len(t, r.Steps, 1)
				seen[r.Steps[0].Kind.Name]++
			}
			assert.Len(t, seen, len(p.Kinds), "%s, cycle %d: %v", topology, cycle, seen)
		}
	}
}

func TestOtherRoundsCombineTwoToFour(t *testing.T) {
	p, sizes := planOf(3, stage.Cluster), make(map[int]int)
	for n := 1; n < 400; n += 2 {
		sizes[len(p.Round(n).Steps)]++
	}
	assert.Len(t, sizes, 3)
	for size := 2; size <= 4; size++ {
		assert.Positive(t, sizes[size], "%d at once", size)
	}
}

func TestAFaultLastsFromATenthOfALeaseToTwoLeases(t *testing.T) {
	p := planOf(3, stage.Sentinel)
	short, long := 2*scene.Lease, time.Duration(0)
	for n := range 400 {
		r := p.Round(n)
		for i, s := range r.Steps {
			lasts := s.To - s.From
			short, long = min(short, lasts), max(long, lasts)
			assert.LessOrEqual(t, s.To, r.Lasts())
			if i > 0 {
				assert.LessOrEqual(t, r.Steps[i-1].From, s.From)
			}
		}
	}
	assert.GreaterOrEqual(t, short, scene.Lease/10)
	assert.LessOrEqual(t, long, 2*scene.Lease)
	assert.Less(t, short, scene.Lease/2, "locks survive some")
	assert.Greater(t, long, 3*scene.Lease/2, "locks do not survive others")
}
