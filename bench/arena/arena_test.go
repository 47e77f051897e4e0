package arena_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/bench/arena"
	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest"
)

// The workers of the tests are this test binary, started again.
func TestMain(m *testing.M) {
	worker.Main()
	goleak.VerifyTestMain(m)
}

func open(t *testing.T) *arena.Arena {
	a, err := arena.Open(t.Context(), redistest.Standalone(t).Addr())
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

func cell(job worker.Job) scenario.Cell {
	job.Processes, job.Locks = max(1, job.Processes), max(1, job.Locks)
	job.Duration = max(job.Duration, 100*time.Millisecond)
	job.Stall, job.Drain = 20*time.Second, time.Minute // long, as they only end a hang
	return scenario.Cell{Scenario: "test", Setting: "setting", Network: scenario.Networks()[0], Rounds: 1, Job: job}
}

func measure(t *testing.T, a *arena.Arena, c scenario.Cell, name string) *arena.Result {
	t.Helper()
	who, err := contender.Find(name)
	require.NoError(t, err)
	r := arena.NewResult(c, who)
	require.NoError(t, a.Measure(t.Context(), c, who, r))
	assert.Empty(t, r.Error)
	return r
}

// until measures rounds of a result until it shows an event: on a busy machine a window may
// pass without one.
func until(t *testing.T, a *arena.Arena, c scenario.Cell, name string, shows func(*arena.Result) bool) *arena.Result {
	t.Helper()
	r := measure(t, a, c, name)
	who, err := contender.Find(name)
	require.NoError(t, err)
	for began := time.Now(); !shows(r); {
		require.Less(t, time.Since(began), 3*time.Minute, "the result never shows it: %s", name)
		require.NoError(t, a.Measure(t.Context(), c, who, r))
	}
	return r
}

// ran requires that the workers did something, and that their CPU clock ticked.
func ran(r *arena.Result) bool { return r.Sections > 0 && r.ClientCPU > 0 }

func handsOver(r *arena.Result) bool { return r.Handover.Count > 0 }

func TestEachKindOfWorkIsMeasured(t *testing.T) {
	a := open(t)
	for kind, c := range map[string]struct {
		who   string
		job   worker.Job
		shows func(*arena.Result) bool
	}{
		"overlaps":  {"broken", worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 1, Section: time.Millisecond}, func(r *arena.Result) bool { return r.Overlaps > 0 }},
		"loops":     {"rlock", worker.Job{Kind: worker.Loop, Processes: 3, Goroutines: 2}, ran},
		"nests":     {"rlock", worker.Job{Kind: worker.Nest, Goroutines: 1, Depth: 5}, func(r *arena.Result) bool { return ran(r) && r.Nested.P50 < r.Pair.P50 }},
		"reads":     {"rlock-rw", worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 4, Reads: 80}, ran},
		"hand-over": {"rlock", worker.Job{Kind: worker.Handover, Processes: 2, Goroutines: 1, Section: time.Millisecond, Duration: 300 * time.Millisecond}, handsOver},
	} {
		t.Run(kind, func(t *testing.T) {
			who, err := contender.Find(c.who)
			require.NoError(t, err)
			r := until(t, a, cell(c.job), c.who, c.shows)
			assert.Zero(t, r.Failures, r.FirstFailure)
			if c.who == "broken" {
				return
			}
			assert.Zero(t, r.Overlaps)
			assert.LessOrEqual(t, r.ProcessShare(), 1.0)
			first := *r
			require.NoError(t, a.Measure(t.Context(), cell(c.job), who, r)) // another round is added
			assert.Equal(t, first.Rounds+1, r.Rounds)
			assert.Len(t, r.PerSecond, r.Rounds)
			assert.GreaterOrEqual(t, r.Pair.Count, first.Pair.Count)
			assert.Greater(t, r.Elapsed, first.Elapsed)
		})
	}
}

// The code of the contenders gives the commands of a section without waiters.
func TestCommandsAreThoseThatCrossedTheNetwork(t *testing.T) {
	a := open(t)
	for name, each := range map[string]float64{"floor-evalsha": 2, "floor-setnx": 2, "rlock": 2, "redsync": 2, "redislock-exp": 2, "rueidislock-1": 2} {
		t.Run(name, func(t *testing.T) {
			r := until(t, a, cell(worker.Job{Kind: worker.Loop, Goroutines: 1}), name, ran)
			// At the edges of each window are sections that count on one side only: as many as the
			// contender does while Redis is asked for its counters.
			edges := max(4*each*float64(r.Rounds), float64(r.Sent)/8)
			assert.InDelta(t, each*float64(r.Sections), float64(r.Sent), edges)
			assert.Greater(t, r.Served, time.Duration(0), "INFO commandstats has the time of the commands")
			assert.Less(t, r.Served, r.Took)
		})
	}
}

func TestANetworkAddsItsRoundTrip(t *testing.T) {
	a := open(t)
	c := cell(worker.Job{Kind: worker.Loop, Goroutines: 1})
	c.Network = scenario.Network{Name: "10ms", RoundTrip: 10 * time.Millisecond}
	r := until(t, a, c, "floor-evalsha", ran)
	assert.GreaterOrEqual(t, r.Pair.P50, 20*time.Millisecond)
	assert.GreaterOrEqual(t, r.RoundTrip, 10*time.Millisecond)
	assert.Equal(t, r.RoundTrip, a.RoundTrips()["10ms"])
}

// measures skips, with -short, a test that measures, and so needs an idle machine.
func measures(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it measures: run it without -short")
	}
}

func TestHeldLocksAreWatched(t *testing.T) {
	measures(t)
	a := open(t)
	// The lease leaves four seconds for a renewal that is due after two.
	hold := cell(worker.Job{Kind: worker.Hold, Locks: 300, Lease: 6 * time.Second, Duration: 2500 * time.Millisecond})
	r := until(t, a, hold, "rlock", func(r *arena.Result) bool { return r.Sent >= 300 && r.Latest > 0 })
	assert.Zero(t, r.Gone)
	assert.Zero(t, r.LostHolds)
	assert.Less(t, r.Latest, 1.0)
	assert.Positive(t, r.BytesPerLock)

	hold.Job.Lease, hold.Job.Duration = time.Second, 1500*time.Millisecond
	r = measure(t, a, hold, "floor-setnx") // which renews nothing
	assert.EqualValues(t, 300, r.Gone)
	assert.EqualValues(t, 300, r.LostHolds)
}

// One JVM does job after job. Its figures are of the same kind as those of a Go worker:
// histograms, exclusion and hand-overs from the shared memory, commands.
func TestRedissonIsMeasuredByAProgramOfItsOwn(t *testing.T) {
	measures(t)
	if why := contender.Redisson().Absent(); why != "" {
		require.NotEqual(t, "1", os.Getenv("RLOCK_REQUIRE_JAVA"), why)
		t.Skip(why)
	}
	a := open(t)
	check := func(name string, job worker.Job, shows func(*arena.Result) bool) *arena.Result {
		t.Helper()
		job.Duration = 500 * time.Millisecond
		r := until(t, a, cell(job), name, shows)
		assert.Zero(t, r.Overlaps)
		assert.Zero(t, r.Failures, r.FirstFailure)
		assert.Zero(t, r.Stuck)
		return r
	}
	r := check("redisson", worker.Job{Kind: worker.Loop, Goroutines: 1}, ran)
	assert.InDelta(t, 3*float64(r.Sections), float64(r.Sent), 30*float64(r.Rounds), "two EVALSHA, and a DEL of the unlock latch")
	assert.GreaterOrEqual(t, r.Wait.Count, r.Sections)
	assert.Positive(t, r.Wait.P50)
	assert.LessOrEqual(t, r.Wait.P50, r.Pair.P50)
	assert.LessOrEqual(t, r.Wait.P99, r.Wait.Worst)

	r = check("redisson", worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 4, Section: 50 * time.Microsecond},
		func(r *arena.Result) bool { return ran(r) && handsOver(r) })
	assert.LessOrEqual(t, r.ProcessShare(), 1.0)

	check("redisson-fair", worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 2}, ran)
	check("redisson-rw", worker.Job{Kind: worker.Loop, Processes: 2, Goroutines: 4, Reads: 80}, ran)

	r = check("redisson", worker.Job{Kind: worker.Nest, Goroutines: 1, Depth: 5}, ran)
	assert.Less(t, r.Nested.P50, r.Pair.P50)

	check("redisson", worker.Job{Kind: worker.Handover, Processes: 2, Goroutines: 1, Section: 5 * time.Millisecond}, handsOver)

	r = check("redisson", worker.Job{Kind: worker.Hold, Locks: 200, Lease: 30 * time.Second}, func(*arena.Result) bool { return true })
	assert.Zero(t, r.Gone)
	assert.Zero(t, r.LostHolds)
}
