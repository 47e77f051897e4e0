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

func TestCallsOfAProcessThatHasEndedFail(t *testing.T) {
	withNewest(t, setting{}, func(s *scene) {
		lock, two := s.fresh(), s.java.Thread("two")
		do := func(t redisson.Thread, method string) error {
			_, err := t.Do(method, lock)
			return err
		}
		require.NoError(s.t, do(s.java.Thread("one"), "lock"))
		require.NoError(s.t, do(s.java.Thread("one"), "lock"), "it is the same thread")
		var e *redisson.Exception
		require.ErrorAs(s.t, do(two, "unlock"), &e)
		assert.Contains(s.t, e.Message, "not locked by current thread")
		waiter := s.start(func() error { return do(two, "lock") })
		s.awaitAsleep(two)
		s.java.Kill()
		redistest.Await(s.t, waiter.done)
		assert.ErrorIs(s.t, waiter.err, redisson.ErrEnded)
		assert.ErrorIs(s.t, do(s.java.Thread("one"), "unlock"), redisson.ErrEnded)
		s.java.Kill() // again
	})
}
