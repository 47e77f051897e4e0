package worker_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/worker"
)

// ground maps the same memory twice, as two processes would.
func ground(t *testing.T, locks int) (a, b *worker.Ground) {
	path, err := worker.CreateGround(locks)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(path) })
	a, err = worker.OpenGround(path, locks)
	require.NoError(t, err)
	b, err = worker.OpenGround(path, locks)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, a.Close())
		assert.NoError(t, b.Close())
	})
	return a, b
}

func TestSectionsThatOverlapAreSeenFromBothSides(t *testing.T) {
	a, b := ground(t, 2)
	_, overlaps := a.Enter(0, 0, time.Now())
	assert.False(t, overlaps)
	_, overlaps = b.Enter(1, 1, time.Now())
	assert.False(t, overlaps, "another lock")
	_, overlaps = b.Enter(0, 1, time.Now())
	assert.True(t, overlaps)
	a.Leave(0)
	_, overlaps = a.Enter(0, 0, time.Now())
	assert.True(t, overlaps, "the other section has not ended")
	a.Leave(0)
	b.Leave(0)
	_, overlaps = a.Enter(0, 0, time.Now())
	assert.False(t, overlaps)
	assert.EqualValues(t, 5, b.Entered())
	assert.Equal(t, 0, b.Last(0))
	assert.Equal(t, 1, a.Last(1))
}

func TestReadersShareAndOverlapWriters(t *testing.T) {
	a, b := ground(t, 1)
	assert.False(t, a.Share(0))
	assert.False(t, b.Share(0), "another reader")
	_, overlaps := a.Enter(0, 0, time.Now())
	assert.True(t, overlaps, "readers have not left")
	a.Unshare(0)
	b.Unshare(0)
	assert.True(t, b.Share(0), "the writer has not left")
	b.Unshare(0)
	a.Leave(0)
	assert.False(t, b.Share(0))
	b.Unshare(0)
	_, overlaps = b.Enter(0, 1, time.Now())
	assert.False(t, overlaps)
	assert.EqualValues(t, 6, a.Entered())
	assert.EqualValues(t, 6, b.EnteredOf(0))
}

func TestAHandoverIsFromAnUnlockToAnotherProcessThatWaited(t *testing.T) {
	a, b := ground(t, 1)
	assert.Equal(t, -1, a.Last(0))
	long := time.Now().Add(-time.Second)

	handover, _ := a.Enter(0, 0, long)
	assert.Zero(t, handover, "no process held it before")
	a.Leave(0)
	handover, _ = a.Enter(0, 0, long)
	assert.Zero(t, handover, "the same process held it before")
	a.Leave(0)
	handover, _ = b.Enter(0, 1, time.Now().Add(time.Second))
	assert.Zero(t, handover, "the lock was free before the wait")
	b.Leave(0)
	freed := time.Now()
	handover, _ = a.Enter(0, 0, long)
	assert.Positive(t, handover)
	assert.LessOrEqual(t, handover, time.Since(freed)+time.Second)
}
