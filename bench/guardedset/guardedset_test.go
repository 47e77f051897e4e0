package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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

func TestNoUpdateIsLost(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil || testing.Short() {
		t.Skip("it starts redis-servers and processes, for some seconds")
	}
	for _, form := range []string{fencing, guarded} {
		t.Run(form, func(t *testing.T) {
			f, err := find("rlock", form)
			require.NoError(t, err)
			r := &run{form: f, lease: time.Second, duration: 4 * time.Second, random: rand.New(rand.NewPCG(1, 1))}
			got, err := r.measure(t.Context())
			require.NoError(t, err)
			assert.Positive(t, got.Writes)
			assert.Positive(t, got.Stops)
			assert.Equal(t, got.Writes, got.Value)
		})
	}
}

func TestTheTableHasAPartOfTheWrites(t *testing.T) {
	text := table([]result{{Library: "rlock", Form: bare, Writes: 200, Value: 150, LostUpdates: 50, PerSecond: 10}}, time.Second)
	assert.Contains(t, text, "| rlock | bare | 200 | 50 (25.0 %) | 0 | 0 | 10.0 |")
}
