package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/report"
	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) {
	worker.Main()
	os.Exit(m.Run())
}

func TestARunMeasuresPrintsAndWrites(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	o, err := parse([]string{"-quick", "-scale", "0.5", "-addr", redistest.Standalone(t).Addr(), "-out", out,
		"-run", "uncontended,nested,one-process", "-contenders", "rlock,floor-evalsha,broken", "-net", "0.5ms"})
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
	assert.Contains(t, string(md), "0.5ms")
	assert.Contains(t, string(md), "OVERLAPS", "the broken lock is reported")
	assert.NotContains(t, string(md), "ended early")
	assert.FileExists(t, filepath.Join(out, "results.json"))
}

func TestARunThatIsEndedReportsItsResults(t *testing.T) {
	out, server := filepath.Join(t.TempDir(), "results"), redistest.Standalone(t)
	o, err := parse([]string{"-quick", "-out", out, "-addr", server.Addr()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	redis := server.Client(t)
	go func() { // ends the run when a lock is taken
		defer cancel()
		for ctx.Err() == nil {
			keys, err := redis.Do(ctx, redis.B().Dbsize().Build()).AsInt64()
			if keys > 0 || err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	require.NoError(t, run(ctx, o))
	md, err := os.ReadFile(filepath.Join(out, "results.md"))
	require.NoError(t, err)
	assert.Contains(t, string(md), "ended early")
}

func TestContendersAreInterleavedAndChangePlaces(t *testing.T) {
	o, err := parse([]string{"-run", "uncontended", "-net", "loopback", "-contenders", "rlock,redsync,floor-evalsha"})
	require.NoError(t, err)
	r := &report.Report{}
	schedule := plan(o, r)
	require.Len(t, r.Results, 2*3)
	require.Len(t, schedule, 2*2*3)
	var order []string
	for _, m := range schedule[:6] {
		order = append(order, m.contender.Name)
	}
	assert.Equal(t, "rlock", order[0])
	assert.NotEqual(t, "rlock", order[3])
	assert.ElementsMatch(t, order[:3], order[3:])
}

func TestInvalidFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-run", "none"}, {"-contenders", "none"}, {"-net", "none"}, {"what"}, {"-none"}} {
		_, err := parse(args)
		assert.Error(t, err, "%v", args)
	}
	_, err := parse([]string{"-help"})
	assert.ErrorIs(t, err, flag.ErrHelp)
}
