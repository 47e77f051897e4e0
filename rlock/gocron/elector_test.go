package rlockgocron_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	rlockgocron "github.com/go-rlock/rlock/rlock/gocron"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// stand has two electors stand, the first of which leads.
func stand(t *testing.T, server *rlocktest.Server) (electors [2]*rlockgocron.Elector, clients [2]*rlock.Client, stop [2]func()) {
	t.Helper()
	for i := range electors {
		clients[i] = server.Client()
		electors[i] = rlockgocron.NewElector(clients[i].NewFencedLock("leader"))
		require.ErrorIs(t, electors[i].IsLeader(t.Context()), rlockgocron.ErrNotLeader)
		assert.Nil(t, electors[i].Hold())
		ctx, cancel := context.WithCancel(t.Context())
		var standing sync.WaitGroup
		standing.Go(func() { assert.NoError(t, electors[i].Run(ctx)) })
		stop[i] = func() { cancel(); standing.Wait() }
		synctest.Wait()
	}
	require.NoError(t, electors[0].IsLeader(t.Context()))
	require.ErrorIs(t, electors[1].IsLeader(t.Context()), rlockgocron.ErrNotLeader)
	return electors, clients, stop
}

func TestTheNextSchedulerLeadsWhenTheFirstOneStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		electors, _, stop := stand(t, rlocktest.NewServer(t))
		stop[0]()
		synctest.Wait()
		assert.ErrorIs(t, electors[0].IsLeader(t.Context()), rlockgocron.ErrNotLeader)
		assert.NoError(t, electors[1].IsLeader(t.Context()))
		stop[1]()
	})
}

func TestALeaderThatIsCutOffStopsBeforeTheNextOneBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		electors, clients, stop := stand(t, server)
		term := electors[0].Hold()
		token, err := term.Token()
		require.NoError(t, err)

		server.Cut(clients[0])
		within(t, time.Minute, func() bool { return electors[1].IsLeader(t.Context()) == nil })
		assert.ErrorIs(t, electors[0].IsLeader(t.Context()), rlockgocron.ErrNotLeader)
		assert.ErrorIs(t, context.Cause(term.Context()), rlock.ErrLost)
		next, err := electors[1].Hold().Token()
		require.NoError(t, err)
		assert.Greater(t, next, token)

		server.Heal(clients[0])
		stop[1]()
		within(t, time.Minute, func() bool { return electors[0].IsLeader(t.Context()) == nil }) // it stands again
		stop[0]()
	})
}

func TestALostLockEndsATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		electors, _, stop := stand(t, server)
		server.Lose("leader")
		synctest.Wait()
		assert.ErrorIs(t, electors[0].IsLeader(t.Context()), rlockgocron.ErrNotLeader)
		assert.NoError(t, electors[1].IsLeader(t.Context()))
		stop[0]()
		stop[1]()
	})
}

func TestRunEndsWithAnErrorWhenTheClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := rlocktest.NewServer(t).Client()
		elector := rlockgocron.NewElector(client.NewLock("leader"))
		done := make(chan error, 1)
		go func() { done <- elector.Run(t.Context()) }()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-done, rlock.ErrClosed)
		assert.ErrorIs(t, elector.IsLeader(t.Context()), rlockgocron.ErrNotLeader)
	})
}
