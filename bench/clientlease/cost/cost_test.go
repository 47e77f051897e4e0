package cost_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/clientlease/cost"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestEverythingIsMeasured(t *testing.T) {
	table, err := cost.Measure(t.Context(), redistest.Standalone(t).Client(t), 2000)
	require.NoError(t, err)
	assert.NotEmpty(t, table.Server)
	for name, bytes := range map[string]float64{"lock": table.LockBytes, "attached": table.AttachedBytes, "client lease": table.LeaseBytes} {
		assert.Positive(t, bytes, name)
	}
	assert.Greater(t, table.AttachedBytes, table.LockBytes, "an attached lock names its client lease")
}

func TestTheCostOfACallIsThatOfTheCallAndOfEachLockInIt(t *testing.T) {
	const call, each = 3100 * time.Nanosecond, 1500 * time.Nanosecond
	table := cost.Table{
		MirrorAlone: call + each, Mirror32: call/32 + each,
		FieldAlone: 2 * (call + each), Field32: 2 * (call/32 + each),
	}
	assert.InDelta(t, call, table.MirrorCall(), 2)
	assert.InDelta(t, each, table.MirrorLock(), 2)
	assert.InDelta(t, 2*call, table.FieldCall(), 4)
	assert.InDelta(t, 2*each, table.FieldEach(), 4)
}
