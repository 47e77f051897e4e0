package redisson_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestWithoutJavaTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := redisson.Start(redisson.Config{Version: "never built"})
	assert.ErrorIs(t, err, redisson.ErrNoJava)
	assert.ErrorContains(t, err, "install")
}

func TestAServerThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	withJava(t, redisson.V4)
	_, err := redisson.Start(redisson.Config{Version: redisson.V4, Addrs: []string{"127.0.0.1:1"}})
	assert.ErrorIs(t, err, redisson.ErrEnded)
}

func threads(s *scene) {
	lock, one, two := s.fresh(), s.java.Thread("one"), s.java.Thread("two")
	require.NoError(s.t, one.Lock(lock, 0))
	require.NoError(s.t, s.java.Thread("one").Lock(lock, 0))
	gives(s.t, 2)(one.HoldCount(lock))
	gives(s.t, false)(two.TryLock(lock, 0, 0))

	var e *redisson.Exception
	require.ErrorAs(s.t, two.Unlock(lock), &e)
	assert.Equal(s.t, "java.lang.IllegalMonitorStateException", e.Class)
	assert.Contains(s.t, e.Message, "not locked by current thread")
}

func TestCallsOfAProcessThatHasEndedFail(t *testing.T) {
	withNewest(t, setting{}, func(s *scene) {
		lock, one, two := s.fresh(), s.java.Thread("one"), s.java.Thread("two")
		require.NoError(s.t, one.Lock(lock, 0))
		waiter := s.start(func() error { return two.Lock(lock, 0) })
		s.awaitWaiter(lock)
		s.java.Kill()
		redistest.Await(s.t, waiter.done)
		assert.ErrorIs(s.t, waiter.err, redisson.ErrEnded)
		assert.ErrorIs(s.t, one.Unlock(lock), redisson.ErrEnded)
		s.java.Kill() // again
	})
}
