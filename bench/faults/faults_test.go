package main

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is a worker where the run says so.
func TestMain(m *testing.M) {
	asWorker()
	m.Run()
}

// playOne plays a short run.
func playOne(t *testing.T, sort string, f form) result {
	if _, err := exec.LookPath("redis-server"); err != nil || testing.Short() {
		t.Skip("it starts redis-servers and processes, for some seconds")
	}
	if _, err := f.command(); err != nil {
		t.Skip(err)
	}
	r := &run{form: f, sort: sortOf(sort), lease: 2 * time.Second, time: 8 * time.Second, random: rand.New(rand.NewPCG(1, 1))}
	got, err := r.play(t.Context())
	require.NoError(t, err)
	assert.Positive(t, got.Happened)
	assert.Positive(t, got.Writes)
	assert.Positive(t, got.Before)
	return got
}

func sortOf(name string) sort {
	return sorts[slices.IndexFunc(sorts, func(s sort) bool { return s.name == name })]
}

func TestAHolderThatIsStoppedLosesUpdatesByABareLockAlone(t *testing.T) {
	t.Parallel()
	for _, f := range []form{{"rlock", bare}, {"rlock", fencing}, {"rlock", guarded}, {"redisson", fencing}} {
		t.Run(f.library+", "+f.text, func(t *testing.T) {
			t.Parallel()
			got := playOne(t, "holder stopped", f)
			assert.Equal(t, f.text == bare, got.Lost > 0, "%d of %d", got.Lost, got.Writes)
			assert.Greater(t, got.Pause, 0.5, "the others wait for the lease")
			assert.Zero(t, got.Still)
		})
	}
}

func TestAGuardedUpdateIsNotLostToAnotherHolderInAFailover(t *testing.T) {
	t.Parallel()
	assert.Zero(t, playOne(t, "failover", form{"rlock", guarded}).Lost)
}

func TestACommandThatIsLateDelaysTheLock(t *testing.T) {
	t.Parallel()
	got := playOne(t, "command late", form{"rlock", bare})
	assert.Zero(t, got.Lost)
	assert.Less(t, got.Under, got.Before)
}
