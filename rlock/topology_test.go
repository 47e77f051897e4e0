package rlock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// change changes the servers while one client holds the lock and another waits for it, and
// then releases the lock. It returns the error of the release, once the waiter has had the
// lock.
func (s *site) change(here, there *rlock.Client, change func()) error {
	s.t.Helper()
	hold, err := here.NewLock(key).Acquire(s.ctx)
	require.NoError(s.t, err)
	waiter := background(func() error {
		if err := there.NewLock(key).Lock(s.ctx); err != nil {
			return err
		}
		return there.NewLock(key).Unlock(s.ctx)
	})
	s.awaitWaiters(1, key)
	change()
	released := hold.Release(s.ctx)
	if err := s.await(waiter); err != nil && !errors.Is(err, rlock.ErrLost) {
		require.NoError(s.t, err)
	}
	return released
}

// settle returns when both clients use the same primary.
func (s *site) settle(here, there *rlock.Client) {
	s.t.Helper()
	for round := 0; ; round++ {
		name := fmt.Sprintf("settling:%d", round) // a lost lock is left alone
		require.NoError(s.t, here.NewLock(name).Lock(s.ctx))
		taken, err := there.NewLock(name).TryLock(s.ctx)
		unlocked := here.NewLock(name).Unlock(s.ctx)
		if err == nil && !taken && unlocked == nil {
			return
		}
		if taken {
			_ = there.NewLock(name).Unlock(s.ctx)
		}
		require.NoError(s.t, s.ctx.Err(), "the clients use different primaries")
	}
}

// A Cluster's planned failover loses no write.
func TestAHoldAndItsWaitersOutliveAPlannedFailoverOfACluster(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	here, there := s.client(), s.client()
	for range 2 { // there and back
		assert.NoError(t, s.change(here, there, func() { s.Failover(key) }))
		s.settle(here, there)
		s.wakes(here, there, s.family())
	}
}

// Behind Sentinel the old primary takes writes that are lost later, and a lock with them; no
// other error occurs.
func TestTheLockGoesOnAfterAPlannedFailoverBySentinel(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	here, there := s.client(withLease(2*time.Second)), s.client(withLease(2*time.Second))
	err := s.change(here, there, s.replace)
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	s.settle(here, there)
	s.wakes(here, there, s.family())
	assert.Eventually(t, func() bool {
		left, err := s.do("EXISTS", key).AsInt64()
		return err == nil && left == 0
	}, hang, 10*time.Millisecond, "a key whose release was lost ends with its lease")
}

func TestAHoldAndItsWaitersOutliveAMoveOfTheirSlot(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	here, there := s.client(), s.client()
	for range 2 { // there and back
		assert.NoError(t, s.change(here, there, func() { s.MoveSlot(key) }))
		s.settle(here, there)
		s.wakes(here, there, s.family())
	}
}

func TestTheLockGoesOnWhenThePrimaryOfAClusterDies(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Cluster(t))
	here, there := s.client(), s.client()
	err := s.change(here, there, func() { s.Primary(key).Stop() })
	assert.True(t, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), err)
	s.settle(here, there)
}
