package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is a worker where the run says so.
func TestMain(m *testing.M) {
	if job := os.Getenv(role); job != "" {
		if err := work(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playOne plays a short run of a form.
func playOne(t *testing.T, faults, library, text string) result {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil || testing.Short() {
		t.Skip("it starts redis-servers and processes, for some seconds")
	}
	f, err := find(library, text)
	require.NoError(t, err)
	if _, why := without([]form{f}); why != "" {
		t.Skip(why)
	}
	all := scenarios()
	s := all[slices.IndexFunc(all, func(s scenario) bool { return s.name == faults })]
	r := &run{form: f, scenario: s, lease: time.Second, calm: time.Second, time: 4 * time.Second, random: rand.New(rand.NewPCG(1, 1))}
	got, err := r.measure(t.Context())
	require.NoError(t, err)
	assert.Positive(t, got.Writes)
	assert.Positive(t, got.Calm)
	assert.NotEmpty(t, got.Faults)
	return got
}

func TestNoUpdateIsLost(t *testing.T) {
	for _, one := range [][2]string{{"rlock", fencing}, {"rlock", guarded}, {redissons, fencing}} {
		t.Run(one[0]+", "+one[1], func(t *testing.T) {
			got := playOne(t, holders, one[0], one[1])
			assert.Equal(t, got.Kept, got.Value)
			assert.Zero(t, got.Gone)
		})
	}
}

// A guarded write may be lost with the primary that had it, but no other holder overwrites it.
func TestNoGuardedUpdateIsLostToAnotherHolderInAFailover(t *testing.T) {
	got := playOne(t, failovers, "rlock", guarded)
	assert.Equal(t, got.Kept, got.Value)
}

func TestTheBareLockOfAStoppedProcessLosesUpdates(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	f, err := find("rlock", bare)
	require.NoError(t, err)
	r := &run{form: f, scenario: scenario{name: holders, make: func() setting { return new(stopsInSection) }}, lease: time.Second, time: time.Second, random: rand.New(rand.NewPCG(1, 1))}
	got, err := r.measure(t.Context())
	require.NoError(t, err)
	assert.Positive(t, got.Stale)
	assert.Positive(t, got.LostUpdates)
	assert.Equal(t, got.Kept, got.Writes)
}

// stopsInSection stops a holder again and again until it has written late.
type stopsInSection struct{ single }

func (s *stopsInSection) fault(ctx context.Context, r *run, _ int) string {
	stale := func() string {
		text, _ := r.data.Do(ctx, r.data.B().Hget().Key(resource[0]).Field("stale").Build()).ToString()
		return text
	}
	for range 10 {
		resume := r.workers[r.holder(ctx)].stop()
		wait(ctx, r.lease+2*time.Second) // a claim may be longer than the lease
		resume()
		wait(ctx, r.lease/4)
		if stale() != "" {
			break
		}
	}
	return "stops"
}

func TestTheLedgerKnowsWhatTheResourceLacksAndTheLongestTimeWithoutAWrite(t *testing.T) {
	l, now := newLedger(), time.Now()
	l.add("1.a", now)
	assert.Equal(t, 1, l.begin(now))
	l.add("2.b", now.Add(time.Second))
	l.add("2.c", now.Add(3*time.Second))
	assert.Equal(t, 2*time.Second, l.longest(now.Add(4*time.Second)))
	assert.Equal(t, 3*time.Second, l.longest(now.Add(6*time.Second)), "none came any more")
	assert.Equal(t, 1, l.missing([]string{"1.a", "2.c", "unheard"}))
	assert.Equal(t, 2, l.heard())
}

func TestEachLibraryHasItsForms(t *testing.T) {
	has := make(map[string][]string)
	for _, f := range forms() {
		has[f.Library] = append(has[f.Library], f.Form)
	}
	assert.Equal(t, map[string][]string{
		"rlock":       {bare, synced, obeyed, fencing, guarded},
		"redsync":     {bare, clock},
		"redislock":   {bare, asked},
		"rueidislock": {bare, obeyed},
		redissons:     {bare, asked, fencing},
	}, has)
}

func TestAFormWhoseProgramIsNotThereIsLeftOut(t *testing.T) {
	missing := form{Library: redissons, Form: bare, program: func() (*exec.Cmd, error) { return nil, exec.ErrNotFound }}
	there, why := without([]form{missing, {Library: "rlock", Form: bare}})
	require.Len(t, there, 1)
	assert.Equal(t, "rlock", there[0].Library)
	assert.Equal(t, "redisson ("+exec.ErrNotFound.Error()+")", why)
}

func TestResultsAreInTheOrderOfTheTablesAndTheNewerOnesReplaceTheOlder(t *testing.T) {
	old := []result{{Scenario: holders, Library: "rlock", Form: guarded, Value: 1}, {Scenario: failovers, Library: redissons, Form: bare, Value: 1}}
	got := merge(old, []result{{Scenario: holders, Library: "rlock", Form: guarded, Value: 2}, {Scenario: holders, Library: "rlock", Form: bare, Value: 2}})
	require.Len(t, got, 3)
	assert.Equal(t, []string{bare, guarded, bare}, []string{got[0].Form, got[1].Form, got[2].Form})
	assert.Equal(t, []int{2, 2, 1}, []int{got[0].Value, got[1].Value, got[2].Value})
}

func TestEachScenarioHasItsTable(t *testing.T) {
	said := text([]result{
		{Scenario: holders, Library: "rlock", Form: bare, Writes: 200, Kept: 200, Value: 150, LostUpdates: 50, Calm: 20, PerSecond: 10, Faults: map[string]int{"stops": 3}},
		{Scenario: failovers, Library: "rlock", Form: guarded, Writes: 200, Gone: 7, Kept: 193, Value: 193, LongestGap: 1.5},
	}, time.Second, "redisson: no java")
	assert.Contains(t, said, "| rlock | bare | 200 | 50 (25.0 %) | 0 | 0 | 20.0 | 10.0 | 3 | 0 | 0 |")
	assert.Contains(t, said, "| rlock | guarded in Redis | 200 | 7 | 0 (0.0 %) | 0 | 0 | 0.0 | 0.0 | 1.5 s | 0 | 0 |")
	assert.Contains(t, said, "Left out: redisson: no java.")
	assert.NotContains(t, said, "Waiters that are stopped")
}
