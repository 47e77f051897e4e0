package simulation_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/bench/clientlease/cost"
	"github.com/go-rlock/rlock/bench/clientlease/simulation"
)

var costs = cost.Table{
	MirrorAlone: 6 * time.Microsecond, Mirror32: 3 * time.Microsecond, Renew: time.Microsecond, Attach32: 4 * time.Microsecond,
	Pair: 4 * time.Microsecond, FieldAlone: 3 * time.Microsecond, Field32: time.Microsecond,
	LockBytes: 150, AttachedBytes: 200, LeaseBytes: 120, FieldBytes: 90,
}

func fleet(locks int, cluster bool) simulation.Fleet {
	return simulation.Fleet{Locks: locks, Clients: 100, Servers: 50, Cluster: cluster, Lease: 30 * time.Second, Seed: 1}
}

func TestAClientLeaseCostsOneCommandForEachClientAndServer(t *testing.T) {
	for _, locks := range []int{100_000, 1_000_000} {
		loads := fleet(locks, false).Steady(costs)
		assert.Equal(t, 100*50/10.0, loads[simulation.Client].Commands)
		assert.Equal(t, 100*50, loads[simulation.Client].Leases)
		assert.Equal(t, float64(locks)/10, loads[simulation.Alone].Commands)
		assert.InDelta(t, float64(locks)*6e-6/10/50, loads[simulation.Alone].ServerCPU, 1e-9)
	}
}

func TestInAClusterAClientLeaseCostsOneCommandForEachClientAndSlot(t *testing.T) {
	for _, locks := range []int{100_000, 1_000_000} {
		each := float64(locks) / 100
		used := simulation.Slots * (1 - math.Pow(1-1.0/simulation.Slots, each)) // expected
		loads := fleet(locks, true).Steady(costs)
		assert.InEpsilon(t, 100*used, loads[simulation.Client].Leases, 0.01)
		assert.InEpsilon(t, 100*used/10, loads[simulation.Batch].Commands, 0.01, "few locks share a slot: rlock's batches are no larger")
	}
}

func TestNoDesignCostsRedisMoreThanOneByOne(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		loads := fleet(200_000, cluster).Steady(costs)
		assert.Len(t, loads, 5)
		for design, load := range loads {
			if design != simulation.Pairs && design != simulation.Fields { // twice as many, each of which is cheaper
				assert.LessOrEqual(t, load.Commands, loads[simulation.Alone].Commands, design)
			}
			assert.LessOrEqual(t, load.ServerCPU, loads[simulation.Alone].ServerCPU*1.01, design)
		}
	}
}

func TestABackstopIsRenewedBesideTheClientLease(t *testing.T) {
	f := fleet(1_000_000, false)
	without := f.Steady(costs)[simulation.Client]
	f.Backstop = time.Hour
	with := f.Steady(costs)[simulation.Client]
	assert.InDelta(t, 1_000_000/1200.0, with.Renewals-without.Renewals, 1e-6)
	assert.Greater(t, with.ServerCPU, without.ServerCPU)
}

func TestAServerWithoutHPEXPIREHasNoFields(t *testing.T) {
	bare := costs
	bare.FieldAlone = 0
	assert.NotContains(t, fleet(1000, false).Steady(bare), simulation.Fields)
}

func TestTheSameSeedGivesTheSameFigures(t *testing.T) {
	assert.Equal(t, fleet(100_000, true).Steady(costs), fleet(100_000, true).Steady(costs))
	assert.Equal(t, crash(simulation.Client).Run(), crash(simulation.Client).Run())
	other := crash(simulation.Client)
	other.Seed++
	assert.NotEqual(t, crash(simulation.Client).Run(), other.Run())
}

func crash(design simulation.Design) simulation.Crash {
	return simulation.Crash{
		Design: design, Locks: 10_000, Servers: 50, Lease: 30 * time.Second, Backstop: time.Hour,
		Waiting: 0.1, Wanted: 0.5, Mean: 10 * time.Minute, Take: 10 * time.Microsecond, Seed: 1,
	}
}

func TestTheLocksOfADeadClientAreFreeWithinALease(t *testing.T) {
	for _, design := range []simulation.Design{simulation.Batch, simulation.Client} {
		r := crash(design).Run()
		assert.GreaterOrEqual(t, r.FirstFree, 20*time.Second, design)
		assert.LessOrEqual(t, r.LastFree, 30*time.Second, design)
		assert.GreaterOrEqual(t, r.MedianTaken, r.FirstFree, design)
		assert.Less(t, r.LastTaken-r.LastFree, 10*time.Millisecond, design)
	}
}

func TestTheWaitersOfOneServerAreServedAtOnceWithAClientLease(t *testing.T) {
	assert.Greater(t, crash(simulation.Client).Run().Burst, 5*crash(simulation.Batch).Run().Burst)
	cluster := crash(simulation.Client)
	cluster.Cluster = true
	assert.Less(t, cluster.Run().Burst, 5, "in a Cluster each slot ends at its own time")
}

func TestOnlyAClientLeaseLeavesGarbage(t *testing.T) {
	locks := crash(simulation.Batch).Run()
	client := crash(simulation.Client).Run()
	for _, mark := range simulation.Marks {
		assert.Zero(t, locks.Garbage[mark])
	}
	assert.Zero(t, locks.Extra)
	// A tenth was waited for, and of the rest a half is never wanted, so that the backstop ends it.
	assert.InEpsilon(t, 9000, client.Garbage[time.Minute]+int(4500*(1-math.Exp(-0.1))), 0.02)
	assert.InEpsilon(t, 4500+4500*math.Exp(-3), client.Garbage[30*time.Minute], 0.03)
	assert.Zero(t, client.Garbage[time.Hour])
	assert.InEpsilon(t, 4500, client.Extra, 0.03)
}
