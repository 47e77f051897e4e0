package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// The workers of the tests are this test binary, started again.
func TestMain(m *testing.M) {
	asRole()
	os.Exit(m.Run())
}

func open(t *testing.T) *arena {
	a, err := openArena(t.Context(), redistest.Standalone(t).Addr())
	require.NoError(t, err)
	t.Cleanup(a.close)
	return a
}

// until measures rounds of a job until the result shows an event: on a busy machine a round may pass
// without one.
func until(t *testing.T, a *arena, who string, j job, shows func(*result) bool) *result {
	t.Helper()
	c, err := find(who)
	require.NoError(t, err)
	j.Processes, j.Locks, j.Depth, j.WarmUp, j.Duration = max(j.Processes, 1), max(j.Locks, 1), max(j.Depth, 1), 1000, max(j.Duration, 100*ms)
	r := &result{contender: c, cell: cell{job: j}}
	for began := time.Now(); r.rounds == 0 || !shows(r); {
		require.Less(t, time.Since(began), 3*time.Minute, "the result never shows it: %s", who)
		a.measure(t.Context(), r)
		require.Empty(t, r.failed)
	}
	return r
}

func ran(r *result) bool       { return r.stats.Sections > 0 && r.stats.CPU > 0 }
func handsOver(r *result) bool { return r.stats.Handover.count() > 0 }
func overlaps(r *result) bool  { return r.stats.Overlaps > 0 }
func nests(r *result) bool     { return ran(r) && r.stats.Nested.at(.5) < r.stats.Pair.at(.5) }

func TestEachContenderExcludesAcrossClients(t *testing.T) {
	first, second := redistest.Standalone(t).Addr(), redistest.Standalone(t).Addr()
	addrs := config{addrs: []string{second, first, redistest.Standalone(t).Addr()}}
	for _, c := range contenders() {
		if c.java != nil || c.wakes == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			var inside, sum int // protected by the lock
			var all sync.WaitGroup
			for range 2 {
				client, err := c.open(addrs)
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, client.close()) })
				for range 3 {
					m := client.mutex("test:" + t.Name())
					all.Go(func() {
						for range 3 {
							if !assert.NoError(t, lock(t, m)) {
								return
							}
							inside++
							assert.Equal(t, 1, inside)
							sum++
							inside--
							assert.NoError(t, m.unlock())
						}
					})
				}
			}
			all.Wait()
			assert.Equal(t, 2*3*3, sum)
		})
	}
}

// lock retries for rueidislock, which may sleep, or begin to sleep, while the lock is free
// (docs/peers.md): a cancelled call may try again. The context must outlive it, since rueidislock
// derives the hold from it.
func lock(t *testing.T, m mutex) (err error) {
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(3*time.Second, cancel)
		if err = m.lock(ctx); err == nil {
			timer.Stop()
			return nil
		}
	}
	return err
}

func TestEachKindOfWorkIsMeasured(t *testing.T) {
	a := open(t)
	for kind, c := range map[string]struct {
		who   string
		job   job
		shows func(*result) bool
	}{
		"loops":                           {"rlock", job{Processes: 3, Goroutines: 2}, ran},
		"nests":                           {"rlock", job{Goroutines: 1, Depth: 5}, nests},
		"reads":                           {"rlock-rw", job{Processes: 2, Goroutines: 4, Reads: 80}, ran},
		"hands over":                      {"rlock", job{Processes: 2, Goroutines: 1, Turns: true, Section: ms, Duration: 300 * ms}, handsOver},
		"sections overlap":                {"broken", job{Processes: 2, Goroutines: 1, Section: ms}, overlaps},
		"readers overlap a writer":        {"broken", job{Goroutines: 4, Reads: 50, Section: ms}, overlaps},
		"a waiter that is not woken":      {"deaf", job{Goroutines: 8, Section: ms}, func(r *result) bool { return r.stats.Stuck > 0 }},
		"readers do not overlap":          {"broken", job{Goroutines: 4, Reads: 100, Section: ms}, ran},
		"the network adds its round trip": {"floor-evalsha", job{Goroutines: 1}, ran},
	} {
		t.Run(kind, func(t *testing.T) {
			r := until(t, a, c.who, c.job, c.shows)
			assert.Zero(t, r.stats.Failures, r.stats.FirstFailure)
			assert.Equal(t, strings.Contains(kind, "overlap") && !strings.Contains(kind, "not"), r.stats.Overlaps > 0)
			assert.Equal(t, c.who == "deaf", r.stats.Stuck > 0)
			assert.Zero(t, r.stats.Cut)
			assert.LessOrEqual(t, r.fewest, r.most)
			if c.who != "floor-evalsha" {
				return
			}
			r.cell.network, r.stats, r.rounds = distance(10*ms), stats{}, 0
			a.measure(t.Context(), r)
			assert.GreaterOrEqual(t, r.roundTrip, 10*ms)
			assert.GreaterOrEqual(t, r.stats.Pair.at(.5), 19*ms)
		})
	}
}

// The code of the contenders gives the commands of a section without waiters.
func TestCommandsAreThoseThatCrossedTheNetwork(t *testing.T) {
	a := open(t)
	for _, name := range []string{"floor-evalsha", "rlock", "redsync", "redislock-exp", "rueidislock-1"} {
		t.Run(name, func(t *testing.T) {
			r := until(t, a, name, job{Goroutines: 1}, ran)
			// At the edges of each window are sections that count on one side only: as many as the
			// contender does while Redis is asked for its counters.
			assert.InDelta(t, 2*r.stats.Sections, r.sent, max(8*float64(r.rounds), float64(r.sent)/8))
			assert.Positive(t, r.served, "INFO commandstats has the time of the commands")
		})
	}
}

func TestHeldLocksAreWatched(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures: run it without -short")
	}
	a := open(t)
	// The lease leaves four seconds for a renewal that is due after two.
	r := until(t, a, "rlock", job{Hold: true, Locks: 300, Lease: 6 * time.Second, Duration: 2500 * ms}, func(r *result) bool { return r.sent >= 300 })
	assert.Zero(t, r.gone+r.stats.Lost)
	assert.Positive(t, r.stats.Bytes)
	r = until(t, a, "redislock-exp", job{Hold: true, Locks: 300, Lease: time.Second, Duration: 1500 * ms}, func(*result) bool { return true }) // it renews nothing
	assert.EqualValues(t, 300, r.gone)
	assert.EqualValues(t, 300, r.stats.Lost)
}

// One JVM does job after job. Its figures are of the same kind as those of a Go worker.
func TestRedissonIsMeasuredByAProgramOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures: run it without -short")
	}
	if why := redissonAs("redisson", plain, "").absent(); why != "" {
		require.NotEqual(t, "1", os.Getenv("RLOCK_REQUIRE_JAVA"), why)
		t.Skip(why)
	}
	a := open(t)
	check := func(name string, j job, shows func(*result) bool) *result {
		t.Helper()
		j.Duration = 500 * ms
		r := until(t, a, name, j, shows)
		assert.Zero(t, r.stats.Overlaps+r.stats.Stuck)
		assert.Zero(t, r.stats.Failures, r.stats.FirstFailure)
		return r
	}
	r := check("redisson", job{Goroutines: 1}, ran)
	assert.InDelta(t, 3*r.stats.Sections, r.sent, 30*float64(r.rounds), "two EVALSHA, and a DEL of the unlock latch")
	assert.GreaterOrEqual(t, r.stats.Wait.count(), r.stats.Sections)
	assert.LessOrEqual(t, r.stats.Wait.at(.5), r.stats.Pair.at(.5))

	check("redisson", job{Processes: 2, Goroutines: 4, Section: 50 * us}, func(r *result) bool { return ran(r) && handsOver(r) })
	check("redisson-fair", job{Processes: 2, Goroutines: 2}, ran)
	check("redisson-rw", job{Processes: 2, Goroutines: 4, Reads: 80}, ran)
	check("redisson", job{Goroutines: 1, Depth: 5}, nests)
	check("redisson", job{Processes: 2, Goroutines: 1, Turns: true, Section: 5 * ms}, handsOver)
	r = check("redisson", job{Hold: true, Locks: 200, Lease: 30 * time.Second}, func(r *result) bool { return r.stats.Bytes > 0 })
	assert.Zero(t, r.gone+r.stats.Lost)
}

func TestARunMeasuresPrintsAndWrites(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	o, err := parse([]string{"-quick", "-scale", "0.5", "-addr", redistest.Standalone(t).Addr(), "-out", out,
		"-run", "uncontended,nested,four-processes", "-contenders", "rlock,floor-evalsha,broken", "-net", "0.5ms"})
	require.NoError(t, err)
	var md []byte
	for range 20 { // on a busy machine a window may pass without an event
		require.NoError(t, run(t.Context(), o))
		md, err = os.ReadFile(filepath.Join(out, "results.md"))
		require.NoError(t, err)
		if strings.Contains(string(md), "OVERLAPS") {
			break
		}
	}
	for _, part := range []string{"### depth 5, 0.5ms (round trip ", "OVERLAPS", "not reentrant: would wait for itself): floor-evalsha, broken.", "![four-processes](four-processes.svg)"} {
		assert.Contains(t, string(md), part)
	}
	assert.NotContains(t, string(md), "ended early")
	assert.FileExists(t, filepath.Join(out, "four-processes.svg"))
}

func TestBesideHasARowForEachContender(t *testing.T) {
	o, err := parse([]string{"-beside", "2", "-goroutines", "3", "-addr", redistest.Standalone(t).Addr()})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, beside(t.Context(), o, &out))
	for name := range strings.SplitSeq(besideDefault, ",") {
		assert.Regexp(t, regexp.MustCompile(`(?m)^\| `+name+` \|( [1-9]\d*(\.\d+)? \|| 0\.\d+ \|){6}$`), out.String())
	}
}

func TestInvalidFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-run", "none"}, {"-contenders", "none"}, {"-net", "none"}, {"what"}, {"-none"}} {
		_, err := parse(args)
		assert.Error(t, err, "%v", args)
	}
	_, err := parse([]string{"-help"})
	assert.True(t, errors.Is(err, flag.ErrHelp))
}

func TestAHistogramHasItsDurations(t *testing.T) {
	var h, other histogram
	for d := time.Duration(1); d < 3*time.Minute; d *= 2 {
		h, other = histogram{}, histogram{}
		h.record(d)
		other.add(&h)
		assert.EqualValues(t, 1, other.count())
		assert.InEpsilon(t, min(d, 2*time.Minute), other.at(.5), .016)
	}
}
