package calls_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testRemainTimeToLive.
func TestTTLIsTheLeaseWhileHeldAndZeroWhenFree(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ttl := func(lock testbed.Locker) time.Duration {
			d, err := lock.TTL(s.Ctx)
			require.NoError(t, err)
			return d
		}
		assert.Zero(t, ttl(here))
		require.NoError(t, here.LockFor(s.Ctx, time.Hour))
		for _, lock := range []testbed.Locker{here, there} {
			assert.Greater(t, ttl(lock), time.Hour-testbed.Hang)
			assert.LessOrEqual(t, ttl(lock), time.Hour)
		}
		require.NoError(t, here.Unlock(s.Ctx))
		assert.Zero(t, ttl(there))
		require.NoError(t, here.Lock(s.Ctx))
		assert.Positive(t, ttl(there))
		assert.LessOrEqual(t, ttl(there), 30*time.Second, "the default lease of the watchdog: no lease leaks into the next lock")
		require.NoError(t, here.Unlock(s.Ctx))
	})
}

func TestTTLOfAKeyThatDoesNotExpireIsNegative(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		require.NoError(t, lock.Lock(s.Ctx))
		// The first answer over a new connection has the client renew its leases, which may be after a PERSIST.
		assert.Eventually(t, func() bool {
			persisted := s.Do("PERSIST", testbed.Key).Error()
			ttl, err := lock.TTL(s.Ctx)
			return persisted == nil && err == nil && ttl == -1
		}, testbed.Hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

// The section "Levels and leases" of the package comment.
