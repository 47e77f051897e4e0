package scenario_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
				assert.True(t, !s.Apart || c.Job.Goroutines == 1 && c.Job.Duration > 10*max(time.Duration(c.Job.Processes)*c.Job.Section, c.Job.Pause), id)
			}
		}
	}
}

func TestScaleAndHoldSetTheTimes(t *testing.T) {
	all, err := scenario.Select("uncontended,hold")
	require.NoError(t, err)
	long, once := all[0].Cells(scenario.Size{Scale: 10}), all[0].Cells(scenario.Size{})
	assert.Equal(t, 10*once[0].Job.Duration, long[0].Job.Duration)
	held := all[1].Cells(scenario.Size{Scale: 10, Hold: time.Hour})
	last := held[len(held)-1].Job
	assert.Equal(t, 100_000, last.Locks)
	assert.Equal(t, time.Hour, last.Duration)
}

func TestSelectFindsScenariosByName(t *testing.T) {
	all, err := scenario.Select("")
	require.NoError(t, err)
	assert.Len(t, all, len(scenario.All())-1, "all but fleet, which takes a run of its own")
	assert.False(t, slices.ContainsFunc(all, func(s scenario.Scenario) bool { return s.Apart }))
	_, err = scenario.Select("hold,none")
	assert.ErrorContains(t, err, "four-processes")
}
