package redisson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shortLease is that of the watchdogs where a test waits for it.
const shortLease = 3 * time.Second

// keptLease is that of the watchdogs where a test waits for longer than it. Redisson
// renews at a third, and on a busy machine seconds late.
const keptLease = 2 * shortLease

func TestTheWatchdogKeepsTheOtherOutForThreeLeases(t *testing.T) {
	withBoth(t, setting{lease: keptLease}, bothKeep)
}

// bothKeep does it each way at once, since all that they do is wait.
func bothKeep(s *scene) {
	javaKeeps := s.start(func() error { keeping(s, s.thread("one"), s.golang()); return nil })
	keeping(s, s.golang(), s.thread("two"))
	javaKeeps.succeeds()
}

func keeping(s *scene, first, second side) {
	lock := s.fresh()
	require.NoError(s.t, first.Lock(lock, 0))
	ok, err := second.TryLock(lock, 2*keptLease, 0)
	require.NoError(s.t, err)
	assert.False(s.t, ok)
	held, err := first.IsHeld(lock)
	require.NoError(s.t, err)
	assert.True(s.t, held)
	require.NoError(s.t, first.Unlock(lock))
}
