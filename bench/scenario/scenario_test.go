package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
)

func TestEveryCellCanBeMeasured(t *testing.T) {
	for _, quick := range []bool{true, false} {
		for _, s := range scenario.All() {
			seen := make(map[string]bool)
			cells := s.Cells(scenario.Size{Quick: quick})
			assert.NotEmpty(t, cells, s.Name)
			for _, c := range cells {
				id := c.Setting + c.Network.Name
				assert.False(t, seen[id], "twice: %s, %s", s.Name, id)
				seen[id] = true
				assert.Equal(t, s.Name, c.Scenario)
				assert.Positive(t, c.Rounds)
				assert.Positive(t, c.Job.Duration)
				assert.Positive(t, c.Job.Processes)
				assert.Positive(t, c.Job.Locks)
				assert.Greater(t, c.Job.Drain, c.Job.Stall)
				assert.True(t, c.Job.Kind == worker.Hold || c.Job.Goroutines > 0, s.Name)
			}
		}
	}
}

func TestEveryContenderTakesPartWhereItCan(t *testing.T) {
	refused := func(name, who string) string {
		s, err := scenario.Select(name)
		require.NoError(t, err)
		c, err := contender.Find(who)
		require.NoError(t, err)
		return s[0].Refuses(c)
	}
	assert.Empty(t, refused("uncontended", "floor-setnx"))
	assert.NotEmpty(t, refused("one-process", "floor-setnx"), "it does not wait")
	assert.NotEmpty(t, refused("nested", "redsync"), "it is not reentrant")
	assert.NotEmpty(t, refused("hold", "redsync"), "it does not renew")
	for _, s := range scenario.All() {
		if s.Kind == contender.Plain {
			assert.Empty(t, refused(s.Name, "rlock"))
		}
	}
}

func TestNetworksThatAreAskedForReplaceTheScenarios(t *testing.T) {
	far := []scenario.Network{{Name: "far", RoundTrip: time.Second}}
	for _, s := range scenario.All() {
		settings := make(map[string]bool)
		for _, c := range s.Cells(scenario.Size{}) {
			settings[c.Setting] = true
		}
		cells := s.Cells(scenario.Size{Networks: far})
		assert.Len(t, cells, len(settings), s.Name)
		for _, c := range cells {
			assert.Equal(t, far[0], c.Network)
			for _, other := range c.Others {
				assert.Equal(t, far[0], other)
			}
		}
	}
}

func TestScaleAndHoldSetTheTimes(t *testing.T) {
	all, err := scenario.Select("uncontended,hold")
	require.NoError(t, err)
	long, once := all[0].Cells(scenario.Size{Scale: 10}), all[0].Cells(scenario.Size{})
	assert.Equal(t, 10*once[0].Job.Duration, long[0].Job.Duration)
	held := all[1].Cells(scenario.Size{Scale: 10, Hold: time.Hour, Lease: time.Minute})
	last := held[len(held)-1].Job
	assert.Equal(t, 100_000, last.Locks)
	assert.Equal(t, time.Hour, last.Duration)
	assert.Equal(t, time.Minute, last.Lease)
}

func TestSelectFindsScenariosByName(t *testing.T) {
	all, err := scenario.Select("")
	require.NoError(t, err)
	assert.Len(t, all, len(scenario.All())-1, "all but fleet, which takes a run of its own")
	assert.False(t, slices.ContainsFunc(all, func(s scenario.Scenario) bool { return s.Apart }))
	_, err = scenario.Select("hold,none")
	assert.ErrorContains(t, err, "four-processes")
}

func TestAFleetHasOneGoroutineInEachProcessAndTimeForTenTurnsOfEach(t *testing.T) {
	all, err := scenario.Select("fleet")
	require.NoError(t, err)
	paused := 0
	for _, c := range slices.Concat(all[0].Cells(scenario.Size{}), all[0].Cells(scenario.Size{Quick: true})) {
		assert.Equal(t, 1, c.Job.Goroutines, c.Setting)
		assert.Greater(t, c.Job.Processes, 1, c.Setting)
		assert.Greater(t, c.Job.Duration, 10*time.Duration(c.Job.Processes)*c.Job.Section, c.Setting)
		if c.Job.Pause > 0 {
			paused++
			assert.Greater(t, c.Job.Duration, 10*(c.Job.Pause+c.Job.Section), c.Setting)
		}
	}
	assert.Positive(t, paused)
}

func TestAFleetComparesContendersOfSeveralKindsAndItsOwn(t *testing.T) {
	compared := func(name string) (who []string) {
		s, err := scenario.Select(name)
		require.NoError(t, err)
		for _, c := range contender.All() {
			if s[0].Compares(c) && s[0].Refuses(c) == "" {
				who = append(who, c.Name)
			}
		}
		return who
	}
	assert.ElementsMatch(t, []string{"rlock", "rlock-fair", "redislock-5ms", "rueidislock-1"}, compared("fleet"))
	assert.NotContains(t, compared("four-processes"), "redislock-5ms")
	assert.NotContains(t, compared("four-processes"), "rlock-fair")
}
