package once_test

import (
	"context"
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

// The job of a night runs once, also if the host that runs it dies: see docs/recipes.md.
func TestTheJobOfANightRunsOnOneHost(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var runs atomic.Int32
		here, reports, errs := make([]bool, 3), make([]string, 3), make([]error, 3)
		for i, late := range []time.Duration{0, time.Second, 20 * time.Minute} { // the clocks of hosts differ, and one was down
			host := start(w, once.Options{Keep: 20 * time.Hour})
			if i == 0 {
				time.AfterFunc(time.Minute, host.client.Die)
			}
			go func() {
				time.Sleep(late)
				reports[i], here[i], errs[i] = nightly(w.Ctx, host.Group, "2026-11-26", func(ctx context.Context) (string, error) {
					n := runs.Add(1)
					select {
					case <-time.After(10 * time.Minute):
					case <-ctx.Done():
						return "", context.Cause(ctx)
					}
					return fmt.Sprint("run ", n), nil
				})
			}()
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 2, runs.Load())
		assert.Equal(t, []bool{false, true, false}, here)
		for i := range 2 {
			require.NoError(t, errs[i+1])
			assert.Equal(t, "run 2", reports[i+1])
		}
	})
}
