package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/fleet/cost"
	"github.com/go-rlock/rlock/bench/fleet/sim"
)

const us, ms = time.Microsecond, time.Millisecond

var costs = cost.Table{
	Command: 6 * us, Message: 6 * us, Acquire: 3 * us, Refused: 4 * us, Join: 22 * us, JoinFirst: 20 * us, JoinFree: 17 * us, Look: 18 * us,
	Leave: 3 * us, LeaveNext: 9 * us, LeaveJoin: 12 * us, Mirror: 3 * us, Subscribe: 20 * us, Set: us, SetRefused: us, Delete: 2 * us,
}

// run runs a fleet of 1 ms sections, 0.5 ms away, for ten seconds, unless it says otherwise.
func run(t *testing.T, f sim.Fleet) *sim.Result {
	t.Helper()
	f.Costs, f.Overhead = costs, us
	if f.Section == 0 {
		f.Section = ms
	}
	if f.Network == (sim.Network{}) {
		f.Network.OneWay = 250 * us
	}
	if f.For == 0 {
		f.Warm, f.For = time.Second, 10*time.Second
	}
	r := f.Run()
	require.Positive(t, r.Sections)
	if f.Failover.At == 0 {
		assert.Zero(t, r.Overlaps)
	}
	return r
}

func TestTheSameSeedGivesTheSame(t *testing.T) {
	f := sim.Fleet{
		Clients: 50, Callers: 2, Names: 20, Shards: 4, Home: 50, Pause: 5 * ms, Linger: time.Second,
		Network: sim.Network{OneWay: 250 * us, Jitter: 100 * us, Tail: 0.001, TailTime: 200 * ms},
		Stalls:  sim.Stalls{Every: time.Second, For: 100 * ms}, Failover: sim.Failover{At: 3 * time.Second, For: time.Second, Lag: 50 * ms},
		Seed: 1,
	}
	figures := func(r *sim.Result) []any {
		return []any{r.Sections, r.Commands, r.Messages, r.Shards, r.Losses, r.Overlaps, r.Events, r.PerSecond, r.Wait.TotalCount(), r.Quantile(50), r.Quantile(99)}
	}
	once, again := run(t, f), run(t, f)
	assert.Equal(t, figures(once), figures(again))
	f.Seed = 2
	assert.NotEqual(t, figures(once), figures(run(t, f)))
}

// A turn is the section, a round trip, and the release in Redis, which grants the lock and tells the next.
func TestATurnIsARoundTrip(t *testing.T) {
	turn := ms + us + 500*us + costs.Command + costs.LeaveNext + costs.Message
	for _, clients := range []int{2, 8, 100} {
		r := run(t, sim.Fleet{Clients: clients})
		assert.InEpsilon(t, 1/turn.Seconds(), r.Rate(), 0.01, clients)
		assert.InEpsilon(t, 2, r.Each(), 0.02, "a release, and a join")
		assert.InEpsilon(t, time.Duration(clients-1)*turn, r.Quantile(99), 0.02, "others precede a client once")
		assert.LessOrEqual(t, r.Most-r.Least, 1)
	}
}

func TestAProcessHandsOffInside(t *testing.T) {
	alone := run(t, sim.Fleet{Clients: 1, Callers: 8})
	assert.InEpsilon(t, 1/(ms+us).Seconds(), alone.Rate(), 0.01)
	many := run(t, sim.Fleet{Clients: 4, Callers: 32, Section: 50 * us})
	assert.Greater(t, many.Rate(), 10_000.0, "16 sections a turn")
	fair := run(t, sim.Fleet{Clients: 4, Callers: 32, Section: 50 * us, Strict: true})
	assert.Less(t, fair.Rate(), 2000.0, "a fair lock passes no ticket")
}

func TestALockThatIsNotContendedTakesTwoCommands(t *testing.T) {
	f := sim.Fleet{Clients: 200, Names: 200, Home: 100, Shards: 4, Pause: 100 * ms}
	r := run(t, f)
	assert.InDelta(t, 2, r.Each(), 0.01)
	assert.InDelta(t, 506, r.Quantile(50).Microseconds(), 15)
	busy := time.Duration(0)
	for _, s := range r.Shards {
		busy += s.Busy
	}
	assert.InEpsilon(t, float64(r.Sections)*(2*costs.Command+costs.Acquire+costs.Leave).Seconds(), busy.Seconds(), 0.01)

	f.Linger = 10 * time.Second
	lingers := run(t, f)
	assert.Less(t, lingers.Each(), 0.1)
	assert.Zero(t, lingers.Quantile(50))
}

// More than a shard can do waits for it, and the rate is that of its processor.
func TestAShardIsFull(t *testing.T) {
	cost := 2*costs.Command + costs.Acquire + costs.Leave
	most := 1 / cost.Seconds()
	f := sim.Fleet{Clients: 3000, Names: 3000, Home: 100, Pause: 30 * ms, For: 2 * time.Second, Warm: 500 * ms}
	full := run(t, f)
	assert.InEpsilon(t, most, full.Rate(), 0.02)
	assert.InDelta(t, 1, full.Fullest(), 0.01)
	f.Shards = 8
	wide := run(t, f)
	assert.InEpsilon(t, 3000/(32*ms).Seconds(), wide.Rate(), 0.03)
	assert.Less(t, wide.Fullest(), 0.5)
}

// A waiter that is granted the lock in a stall costs the others a claim, and one that polls nothing.
func TestAStallCostsAClaim(t *testing.T) {
	fleet := sim.Fleet{Clients: 64, Stalls: sim.Stalls{Every: 320 * time.Second, For: 5 * time.Second}, For: 100 * time.Second} // one in five seconds
	calm := run(t, sim.Fleet{Clients: 64, For: 20 * time.Second}).Idle()
	lost := make(map[time.Duration]float64)
	for _, claim := range []time.Duration{500 * ms, 2 * time.Second} {
		f := fleet
		f.Claim, f.Look = claim, claim
		lost[claim] = run(t, f).Idle() - calm
	}
	assert.InDelta(t, 0.40*(1-calm), lost[2*time.Second], 0.1, "two seconds of five")
	assert.InDelta(t, 0.10*(1-calm), lost[500*ms], 0.05)
	fleet.Polling = &sim.Polling{Least: 5 * ms, Lease: 30 * time.Second}
	polls := fleet
	polls.Stalls = sim.Stalls{}
	assert.InDelta(t, run(t, polls).Idle(), run(t, fleet).Idle(), 0.03, "but for those that stall in their section")
}

func TestAClientThatPolls(t *testing.T) {
	polling := &sim.Polling{Least: 5 * ms, Lease: 30 * time.Second}
	alone := run(t, sim.Fleet{Clients: 1, Polling: polling})
	assert.InEpsilon(t, 1/(2*ms+us+2*costs.Command+costs.Set+costs.Delete).Seconds(), alone.Rate(), 0.01)
	crowd := run(t, sim.Fleet{Clients: 32, Polling: polling})
	assert.Greater(t, crowd.Each(), 5.0)
	// The key of a holder that takes longer than its lease is taken by another.
	f := sim.Fleet{Clients: 8, Polling: &sim.Polling{Least: 5 * ms, Lease: time.Second}, Section: 2 * time.Second, For: 20 * time.Second, Costs: costs}
	assert.Positive(t, f.Run().Overlaps)
}

func TestASlowNetworkLosesNothing(t *testing.T) {
	r := run(t, sim.Fleet{Clients: 64, Network: sim.Network{OneWay: 250 * us, Jitter: ms, Tail: 0.01, TailTime: 200 * ms}, For: 20 * time.Second})
	assert.Zero(t, r.Losses)
}

func TestAFailover(t *testing.T) {
	f := sim.Fleet{Clients: 32, Failover: sim.Failover{At: 4 * time.Second, For: time.Second, Lag: 50 * ms}, Warm: time.Second, For: 11 * time.Second}
	r := run(t, f)
	require.Greater(t, len(r.PerSecond), 10)
	assert.LessOrEqual(t, r.PerSecond[4], 1, "the fifth second")
	assert.InEpsilon(t, r.PerSecond[3], r.PerSecond[10], 0.05, "all go on")
	f.Names, f.Shards, f.Home, f.Pause = 32, 4, 100, ms
	wide := run(t, f)
	assert.Greater(t, wide.PerSecond[4], wide.PerSecond[3]*7/10, "the other servers go on")
	assert.Greater(t, wide.PerSecond[10], wide.PerSecond[3]*95/100, "all go on")
	// The replica has some locks whose release it has not seen. The look of the first ticket asks the client, which
	// releases them, long before the end of their lease of 30 s.
	f.Failover.Lag = 0
	kept := run(t, f)
	assert.Greater(t, kept.PerSecond[10], kept.PerSecond[3]*95/100)
	assert.Greater(t, kept.PerSecond[5], wide.PerSecond[5], "none waits for a look")
}

// A million clients need little memory while they pause, and a crowd of them can be simulated.
func TestAnIdleClientIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("100 000 clients")
	}
	r := run(t, sim.Fleet{Clients: 100_000, Names: 100_000, Home: 100, Shards: 16, Pause: 10 * time.Second, For: time.Second})
	assert.InEpsilon(t, 10_000, r.Rate(), 0.05)
	assert.InDelta(t, 2, r.Each(), 0.01)
}
