package probe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/probe"
	"github.com/go-rlock/rlock/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAProbeSeesWhenLocksWorkAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) {
		p, err := probe.Start(rlock.Config{Redis: s.Options()})
		require.NoError(t, err)
		_, err = p.Since(t.Context(), time.Now())
		require.NoError(t, err)

		s.Stop()
		synctest.Wait()
		stopped := time.Now()
		time.AfterFunc(10*time.Second, s.Start)
		r, err := p.Since(t.Context(), stopped)
		require.NoError(t, err)
		for _, took := range []time.Duration{r.Acquire, r.Renewal} {
			require.GreaterOrEqual(t, took, 10*time.Second, "the locks work before the server does")
			require.Less(t, took, 11*time.Second)
		}
		require.NoError(t, p.Close())
	})
}

func TestAProbeReportsThatNoLockWorks(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) {
		p, err := probe.Start(rlock.Config{Redis: s.Options()})
		require.NoError(t, err)
		s.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = p.Since(ctx, time.Now().Add(time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.Start()
		require.NoError(t, p.Close())
	})
}
