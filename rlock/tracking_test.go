package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// tracking turns on Config.Tracking. The lease is so long that no renewal finds a loss during
// a test.
func tracking(c *rlock.Config) { c.Tracking, c.Lease = true, 24*time.Hour }

// asked returns how often the client has sent that subcommand of CLIENT.
func (p *testClient) asked(subcommand string) (n int) {
	for _, f := range p.net.Sent("CLIENT") {
		if f.Args[1] == subcommand {
			n++
		}
	}
	return n
}

// awaitTracked returns when the server tracks n keys.
func (s *site) awaitTracked(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		info, err := s.do("INFO", "stats").ToString()
		return err == nil && strings.Contains(info, fmt.Sprintf("tracking_total_keys:%d\r\n", n))
	}, hang, time.Millisecond)
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
				lock := newLock(s.client(tracking))
				hold, err := lock.Acquire(s.ctx)
				require.NoError(t, err)
				s.awaitTracked(1)
				require.NoError(t, s.do(change[0], change[1], change[2:]...).Error())
				require.NoError(t, s.await(background(func() error { <-hold.Context().Done(); return nil })))
				require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
				require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
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
	lock := s.client(tracking).NewLock(key)
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
	require.NoError(t, s.await(background(func() error { <-hold.Context().Done(); return nil })))
	require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
}

func TestChangesOfManyKeysAreReportedInBatches(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	client := s.client(tracking)
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
	holder, other := s.client(tracking), s.client(tracking)
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

// Another client may change the key and restore it. The holder asks, and goes on.
func TestAChangeThatLeavesTheLockToItsHolderLosesNothing(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	hold, err := s.client(tracking).NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.awaitTracked(1)
	calls := s.CountCalls(t, func() {
		require.NoError(t, s.do("PEXPIRE", key, "60000").Error())
		require.Eventually(t, func() bool { n, _ := s.do("PTTL", key).AsInt64(); return n > 60_000 }, hang, time.Millisecond, "the mirror sets the lease")
	})
	require.EqualValues(t, 1, calls["evalsha"])
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(s.ctx))
}

func TestReadersAndPermitsAreNotTracked(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	client := s.client(tracking)
	for _, lock := range []*rlock.Lock{client.NewReadWriteLock("read").Read(), client.NewSemaphore("permits", 2)} {
		hold, err := lock.Acquire(s.ctx)
		require.NoError(t, err)
		defer func() { assert.NoError(t, hold.Release(s.ctx)) }()
	}
	hold, err := client.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.awaitTracked(1) // the last of the three
	require.NoError(t, hold.Release(s.ctx))
}

// A server that refuses tracking is asked once for each connection, and locks work without.
func TestWhereTrackingIsRefusedTheNextRenewalFindsTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) { // the embedded server has no tracking
		p := w.client(func(c *rlock.Config) { c.Tracking = true })
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		other, err := p.NewLock("another").Acquire(w.ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.asked("TRACKING"))
		p.net.Cut()
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, p.asked("TRACKING"), 1+2, "at most once for each connection that has ended")
		w.Del(key)
		within(t, 0, 11*time.Second, func() { <-hold.Context().Done() })
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.NoError(t, other.Release(w.ctx))
	})
}

func TestShortHoldsAreNotTracked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(func(c *rlock.Config) { c.Tracking = true })
		for range 100 {
			require.NoError(t, p.NewLock(key).Do(w.ctx, func(context.Context) error { time.Sleep(40 * time.Millisecond); return nil }))
		}
		synctest.Wait()
		assert.Len(t, p.net.Sent("EVALSHA"), 200)
		assert.Zero(t, p.asked("TRACKING"))
	})
}

func TestAUserNeedsRightsForTracking(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := at(t, redistest.Standalone(t))
	rules := s.rights(s.aclLines()...)
	without, with := s.limited(rules...), s.limited(append(rules, s.rights("Tracking")...)...)
	tracking(&without)
	tracking(&with)
	for name, config := range map[string]rlock.Config{key: with, key + "2": without} {
		hold, err := s.client(func(c *rlock.Config) { *c = config }).NewLock(name).Acquire(s.ctx)
		require.NoError(t, err)
		defer func() { assert.NoError(t, hold.Release(s.ctx)) }()
	}
	s.awaitTracked(1)
}

// In a Cluster tracking is neither used nor asked for.
func TestTrackingChangesNothingInACluster(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Cluster(t))
	client := s.client(func(c *rlock.Config) { c.Tracking, c.Lease = true, 300*time.Millisecond })
	hold, err := client.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.number("DEL", key)
	require.NoError(t, s.await(background(func() error { <-hold.Context().Done(); return nil })))
	require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
}

func TestBeforeRedis7TheNextRenewalFindsTheLoss(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	if s.Major() >= 7 {
		t.Skip("the server supports tracking")
	}
	client := s.client(func(c *rlock.Config) { c.Tracking, c.Lease = true, 300*time.Millisecond })
	hold, err := client.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	s.number("DEL", key)
	require.NoError(t, s.await(background(func() error { <-hold.Context().Done(); return nil })))
	require.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
}

// The embedded server refuses tracking, but it sees whether the client asks for it.
func TestAHoldThatBeganWhileTheLockLingeredIsTracked(t *testing.T) {
	for name, warm := range map[string]bool{"the first hold": false, "a hold of a lock that lingered": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.lingerer(time.Hour, tracking)
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
