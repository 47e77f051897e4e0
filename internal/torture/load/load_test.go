package load_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/load"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

// The test binary is a worker too.
func TestMain(m *testing.M) {
	worker.Main()
	redistest.Main(m)
}

func TestEveryWaiterIsServedAndNothingGrows(t *testing.T) {
	redistest.Standalone(t) // or skip
	s, err := stage.Open(stage.Standalone, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	loads, err := load.Run(s, load.Size{Waiters: 200, Locks: 100, Processes: 2, Workers: 3, Mixed: time.Second}, 1, t.Logf)
	require.NoError(t, err)
	require.Len(t, loads, 3)
	for _, l := range loads {
		require.Empty(t, l.Violations(), "%s", l.What)
		require.Positive(t, l.Served, "%s", l.What)
		require.Positive(t, l.Took, "%s", l.What)
	}
	require.EqualValues(t, 200, loads[0].Served)
	require.EqualValues(t, 100, loads[1].Served)
	require.GreaterOrEqual(t, loads[0].Sights[1].Goroutines, 200, "a look while they waited")
	keys, err := s.Keys()
	require.NoError(t, err)
	require.Empty(t, keys)
}
