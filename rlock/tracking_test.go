package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unrenewed has a lease that is so long that no renewal finds a loss during a test.
func unrenewed(c *rlock.Config) { c.Lease = 24 * time.Hour }

// awaitTracked returns when the servers track n keys.
func (s *site) awaitTracked(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		sum := 0
		for _, node := range s.nodes() {
			info, err := node.Do(s.ctx, node.B().Info().Section("stats").Build()).ToString()
			_, rest, found := strings.Cut(info, "tracking_total_keys:")
			keys, digits := 0, strings.SplitN(rest, "\r", 2)[0]
			if _, scanned := fmt.Sscan(digits, &keys); err != nil || !found || scanned != nil {
				return false
			}
			sum += keys
		}
		return sum == n
	}, hang, time.Millisecond)
}

// awaitTracking returns when the client has so many keys tracked.
func (s *site) awaitTracking(client *rlock.Client, n int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return client.Stats().Tracked == n }, hang, time.Millisecond)
}

// requireLoss returns when the hold is lost.
func (s *site) requireLoss(hold *rlock.Hold) {
	s.t.Helper()
	require.NoError(s.t, s.await(background(func() error { <-hold.Context().Done(); return nil })))
	require.ErrorIs(s.t, context.Cause(hold.Context()), rlock.ErrLost)
	require.ErrorIs(s.t, hold.Release(s.ctx), rlock.ErrLost)
}

// The promise of docs/guarantees.md, by default: no renewal comes during the test.
func TestALossIsToldWithoutARenewal(t *testing.T) {
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		client := s.client(unrenewed)
		var holds []*rlock.Hold // in several slots of a Cluster
		for i := range 8 {
			hold, err := client.NewLock(fmt.Sprint(key, i)).Acquire(s.ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
		}
		s.awaitTracked(len(holds))
		assert.EqualValues(t, len(holds), client.Stats().Tracked)
		s.number("DEL", key+"0")
		s.requireLoss(holds[0])
		require.NoError(t, s.do("SET", key+"1", "something else").Error())
		s.requireLoss(holds[1])
		for _, hold := range holds[2:] {
			require.NoError(t, context.Cause(hold.Context()))
		}
		require.NoError(t, holds[2].Release(s.ctx))
		for _, node := range s.nodes() {
			_ = node.Do(s.ctx, node.B().Flushall().Build()).Error() // a replica refuses
		}
		for _, hold := range holds[3:] {
			s.requireLoss(hold)
		}
		s.awaitTracking(client, 0)
		assert.Zero(t, client.Stats().TrackingRefused)
	})
}

func TestAnEvictionIsToldWithoutARenewal(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t, "--maxmemory-policy", "allkeys-random"))
	hold, err := s.client(unrenewed).NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.awaitTracked(1)
	s.admin("CONFIG", "SET", "maxmemory", "1")
	require.Eventually(t, func() bool { return s.number("EXISTS", key) == 0 }, hang, time.Millisecond)
	s.requireLoss(hold)
	s.admin("CONFIG", "SET", "maxmemory", "0")
}

// A thousand keys are tracked. The loss of another is told by the next mirror, and all are told
// if all are lost.
func TestAClientTracksAThousandKeys(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	client := s.client(unrenewed)
	const most = 1000
	holds := make([]*rlock.Hold, most)
	for i := range holds {
		var err error
		holds[i], err = client.NewLock(fmt.Sprint("lock ", i)).Acquire(s.ctx)
		require.NoError(t, err)
	}
	s.awaitTracked(most)
	last := client.NewLock("one more")
	hold, err := last.Acquire(s.ctx)
	require.NoError(t, err)
	next, err := client.NewLock("yet another").Acquire(s.ctx)
	require.NoError(t, err)
	s.elapse(client, 2*trackAfter)
	s.number("DEL", "one more")
	s.number("DEL", "lock 0")
	s.requireLoss(holds[0])
	require.NoError(t, context.Cause(hold.Context()), "no notice came before that")
	nested, err := last.Acquire(hold.Context())
	require.NoError(t, err)
	s.requireLoss(nested)
	require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
	s.admin("FLUSHALL")
	s.requireLoss(next)
	s.requireLoss(holds[most-1])
	s.awaitTracking(client, 0)
}

// trackAfter is how long a hold lasts before its key is tracked.
const trackAfter = 50 * time.Millisecond

// elapse returns when so much time has passed, and the client has noticed it: a lock with a lease
// of that time was lost.
func (s *site) elapse(client *rlock.Client, d time.Duration) {
	s.t.Helper()
	hold, err := client.NewLock(key+":for a while").Acquire(s.ctx, rlock.WithLease(d))
	require.NoError(s.t, err)
	s.requireLoss(hold)
}

func TestTheNextKeyIsTrackedWhenAnotherIsNot(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	client := s.client(unrenewed, func(c *rlock.Config) { c.TrackedKeys = 1 })
	for i := range 3 {
		first, err := client.NewLock(key).Acquire(s.ctx)
		require.NoError(t, err)
		s.awaitTracked(1)
		second := client.NewLock(key + "2")
		waits, err := second.Acquire(s.ctx)
		require.NoError(t, err)
		s.elapse(client, 2*trackAfter)
		switch i { // the ways in which tracking a key ends
		case 0:
			require.NoError(t, first.Release(s.ctx))
		case 1:
			s.number("DEL", key)
			s.requireLoss(first)
		case 2:
			_, err := client.NewLock(key).ForceUnlock(s.ctx)
			require.NoError(t, err)
			s.requireLoss(first)
		}
		s.awaitTracking(client, 0)
		nested, err := second.Acquire(waits.Context()) // the mirror of which tracks the key
		require.NoError(t, err)
		s.awaitTracked(1)
		s.number("DEL", key+"2")
		s.requireLoss(nested)
		require.ErrorIs(t, waits.Release(s.ctx), rlock.ErrLost)
		s.awaitTracking(client, 0)
	}
}

func TestRedisReportsChangesOfTheKeyOfAHeldLock(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	kinds := map[string]func(c *rlock.Client) *rlock.Lock{
		"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(key) },
		"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(key) },
		"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(key) },
		"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() },
	}
	for what, change := range map[string][]string{
		"deleted":     {"DEL", key},
		"unlinked":    {"UNLINK", key},
		"overwritten": {"SET", key, "something else"},
		"renamed":     {"RENAME", key, "another"},
		"flushed":     {"FLUSHALL", "ASYNC"},
	} {
		for kind, newLock := range kinds {
			t.Run(kind+"/"+what, func(t *testing.T) {
				lock := newLock(s.client(unrenewed))
				hold, err := lock.Acquire(s.ctx)
				require.NoError(t, err)
				s.awaitTracked(1)
				require.NoError(t, s.do(change[0], change[1], change[2:]...).Error())
				s.requireLoss(hold)
				require.NoError(t, s.do("FLUSHALL", "SYNC").Error())
				s.awaitTracked(0)
			})
		}
	}
}

// Each mirror changes the key, which ends its tracking.
func TestAKeyIsTrackedAgainAfterEachMirror(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	lock := s.client(unrenewed).NewLock(key)
	hold, err := lock.Acquire(s.ctx)
	require.NoError(t, err)
	s.awaitTracked(1)
	for range 5 {
		require.NoError(t, s.do("SCRIPT", "FLUSH").Error()) // the next script is sent twice
		nested, err := lock.Acquire(hold.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool { n, _ := s.do("HVALS", key).AsStrSlice(); return n[0] == "2" }, hang, time.Millisecond)
		s.awaitTracked(1)
		require.NoError(t, nested.Release(s.ctx))
		require.Eventually(t, func() bool { n, _ := s.do("HVALS", key).AsStrSlice(); return n[0] == "1" }, hang, time.Millisecond)
		s.awaitTracked(1)
	}
	require.NoError(t, s.do("DEL", key).Error())
	s.requireLoss(hold)
}

func TestChangesOfManyKeysAreReportedInBatches(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	client := s.client(unrenewed)
	const n = 1000
	holds := make([]*rlock.Hold, n)
	for i := range holds {
		var err error
		holds[i], err = client.NewLock(fmt.Sprint("lock ", i)).Acquire(s.ctx)
		require.NoError(t, err)
	}
	s.awaitTracked(n)
	calls := s.CountCalls(t, func() {
		require.NoError(t, s.do("FLUSHALL", "SYNC").Error())
		for _, hold := range holds {
			require.NoError(t, s.await(background(func() error { <-hold.Context().Done(); return nil })))
		}
	})
	assert.Less(t, calls["evalsha"], int64(n+n/4), "a step for each lock that is lost, and few calls that ask")
}

// Waiters and other readers of a held lock send the holder no message: they do not change its
// key.
func TestTheHolderDoesNotAskRedisForItsWaiters(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	holder, other := s.client(unrenewed), s.client(unrenewed)
	hold, err := holder.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.awaitTracked(1)
	waits, queued := queueing(s.ctx)
	waiter := background(func() error { return other.NewLock(key).Do(waits, nothing) })
	<-queued
	free, err := other.NewLock(key).TryLock(s.ctx)
	require.NoError(t, err)
	require.False(t, free)
	s.awaitTracked(1)
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(s.ctx))
	require.NoError(t, s.await(waiter))
}

// Another client may change the key and restore it. The holder asks, and goes on. It is told of the next change as well.
func TestAChangeThatLeavesTheLockToItsHolderLosesNothing(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	hold, err := s.client(unrenewed).NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.awaitTracked(1)
	calls := s.CountCalls(t, func() {
		require.NoError(t, s.do("PEXPIRE", key, "60000").Error())
		require.Eventually(t, func() bool { n, _ := s.do("PTTL", key).AsInt64(); return n > 60_000 }, hang, time.Millisecond, "the mirror sets the lease")
	})
	require.EqualValues(t, 1, calls["evalsha"])
	require.NoError(t, context.Cause(hold.Context()))
	s.awaitTracked(1) // a second later
	s.number("DEL", key)
	s.requireLoss(hold)
}

// The embedded server refuses tracking, but it sees whether the client asks for it.
func TestAHoldThatBeganWhileTheLockLingeredIsTracked(t *testing.T) {
	for name, warm := range map[string]bool{"the first hold": false, "a hold of a lock that lingered": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.lingerer(time.Hour, unrenewed, byDefault)
				lock := p.NewLock(key)
				if warm {
					w.use(lock) // and it lingers
					time.Sleep(time.Second)
				}
				require.Zero(t, p.asked("TRACKING"))
				me := w.caller()
				require.NoError(t, lock.Lock(me))
				time.Sleep(time.Minute)
				assert.Equal(t, 1, p.asked("TRACKING"), "the key of a lock that is held for a minute is to be tracked")
				require.NoError(t, lock.Unlock(me))
			})
		})
	}
}
