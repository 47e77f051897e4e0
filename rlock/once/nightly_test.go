package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
)

// nightly runs the job of a night on one of the hosts that call it, and returns its report on all
// of them.
func nightly(ctx context.Context, group *once.Group, night string, job func(context.Context) (string, error)) (report string, here bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Hour) // for Redis, and for the host that runs the job
	defer cancel()
	report, elsewhere, err := once.As(ctx, group, once.JSON[string](), "nightly:"+night, job)
	return report, !elsewhere && err == nil, err
}

// The job of a night runs once, whatever happens to the hosts and to Redis: see docs/recipes.md.
func TestTheJobOfANightRunsOnOneHost(t *testing.T) {
	for what, c := range map[string]struct {
		happens func(w *testbed.World, hosts []*process)
		fails   int32 // how many runs
		here    []bool
		runs    int32
	}{
		"a host dies in the job":    {happens: func(_ *testbed.World, hosts []*process) { time.AfterFunc(time.Minute, hosts[0].client.Die) }, here: []bool{false, true, false}, runs: 2},
		"the job fails on one host": {happens: func(*testbed.World, []*process) {}, fails: 1, here: []bool{false, true, false}, runs: 2},
		"Redis is away at the tick": {happens: func(_ *testbed.World, hosts []*process) {
			for _, h := range hosts {
				h.client.Net.Refuse()
				time.AfterFunc(5*time.Second, h.client.Net.Heal)
			}
		}, here: nil, runs: 1},
	} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			var hosts []*process
			for range 3 {
				hosts = append(hosts, start(w, once.Options{Keep: 20 * time.Hour}))
			}
			c.happens(w, hosts)
			var runs atomic.Int32
			here, reports, errs := make([]bool, 3), make([]string, 3), make([]error, 3)
			for i, late := range []time.Duration{0, time.Second, 20 * time.Minute} { // the clocks of hosts differ, and one was down
				go func() {
					time.Sleep(late)
					reports[i], here[i], errs[i] = nightly(w.Ctx, hosts[i].Group, "2026-11-26", func(ctx context.Context) (string, error) {
						n := runs.Add(1)
						select {
						case <-time.After(10 * time.Minute):
						case <-ctx.Done():
							return "", context.Cause(ctx)
						}
						if n <= c.fails {
							return "", errors.New("the disk is full")
						}
						return fmt.Sprint("run ", n), nil
					})
				}()
			}
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			assert.Equal(t, c.runs, runs.Load(), what)
			ran := 0
			for i := range hosts {
				if c.here != nil {
					assert.Equal(t, c.here[i], here[i], "%s, host %d", what, i)
				}
				if here[i] {
					ran++
				}
				if c.here == nil || i > 0 {
					require.NoError(t, errs[i], what)
					assert.Equal(t, fmt.Sprint("run ", c.runs), reports[i], "%s, host %d", what, i)
				}
			}
			assert.Equal(t, 1, ran, what)
		})
	}
}
