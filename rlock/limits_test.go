package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A server at its limits. (TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked has a full
// server that may not evict keys.)

func (s *site) configure(parameter, value string) {
	s.t.Helper()
	set := s.outside.B().ConfigSet().ParameterValue().ParameterValue(parameter, value).Build()
	require.NoError(s.t, s.outside.Do(s.ctx, set).Error())
}

// closeConnections closes all connections but that of the outsider.
func (s *site) closeConnections() {
	s.t.Helper()
	for _, kind := range []string{"normal", "pubsub"} {
		require.NoError(s.t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Build()).Error())
	}
}

func TestALockWhoseKeyIsEvictedIsLostAndItsHolderIsNotified(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := s.lock(withLease(time.Second)), s.lock()
	hold, err := here.Acquire(s.ctx)
	require.NoError(t, err)
	s.configure("maxmemory-policy", "allkeys-random")
	s.configure("maxmemory", "1")
	require.Eventually(t, func() bool { return s.number("EXISTS", key) == 0 }, hang, time.Millisecond)
	s.configure("maxmemory", "0")
	select {
	case <-hold.Context().Done():
	case <-s.ctx.Done():
		require.FailNow(t, "the holder was not notified")
	}
	assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	assert.ErrorIs(t, hold.Release(s.ctx), rlock.ErrLost)
	assert.True(t, s.isFree(there))
}

func TestAServerThatTakesNoMoreClientsIsTheErrorOfNew(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	s.configure("maxclients", "1")
	for range 10 {
		client, err := rlock.New(rlock.Config{Redis: s.Options(), Logger: quiet})
		require.Error(t, err)
		assert.ErrorContains(t, err, "maxclients")
		assert.Nil(t, client)
	}
	s.configure("maxclients", "100")
	require.True(t, s.isFree(s.lock()))
}

// Connected clients go on. A waiter without a connection for its subscription polls.
func TestAServerThatTakesNoMoreClientsServesThoseItHas(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := s.lock(), s.lock()
	require.NoError(t, here.Lock(s.ctx))
	s.configure("maxclients", s.info(s.outside, "clients")["connected_clients"])
	require.False(t, s.isFree(there))
	ctx, queued := queueing(s.ctx)
	waiter := background(func() error { return there.Do(ctx, func(context.Context) error { return nil }) })
	<-queued
	require.NoError(t, here.Unlock(s.ctx))
	require.NoError(t, s.await(waiter))
	s.configure("maxclients", "100")
}

// A client that has lost its connection reconnects when there is room, and still holds its
// locks if that was in time.
func TestAClientThatIsKeptOutComesBackWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	here, there := dial(t, s.Options()), dial(t, s.Options())
	hold, err := here.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	waiter := background(func() error {
		return there.NewLock(key).Do(s.ctx, func(context.Context) error { return nil })
	})
	s.awaitWaiters(1, key)

	s.configure("maxclients", "1")
	s.closeConnections()
	limited, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, here.NewLock("other").Lock(limited), context.DeadlineExceeded)
	assert.True(t, hold.Valid())

	s.configure("maxclients", "100")
	s.awaitWaiters(1, key)
	require.NoError(t, here.NewLock("other").Lock(s.ctx))
	require.NoError(t, here.NewLock("other").Unlock(s.ctx))
	require.NoError(t, hold.Release(s.ctx))
	require.NoError(t, s.await(waiter))
	s.wakes(here, there, plain)
}
