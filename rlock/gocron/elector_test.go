package rlockgocron_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/elect"
	rlockgocron "github.com/go-rlock/rlock/rlock/gocron"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// A standing elector is one in Run.
type standing struct {
	*rlockgocron.Elector
	stop func()
}

// stand starts two electors, the first of which leads.
func stand(t *testing.T, server *rlocktest.Server) (first, second standing) {
	t.Helper()
	var both [2]standing
	for i, text := range []string{"the first", "the second"} {
		elector := rlockgocron.NewElector(server.Client(), "leader", elect.WithText(text))
		require.ErrorIs(t, elector.IsLeader(t.Context()), elect.ErrNotLeader)
		assert.Nil(t, elector.Term())
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { assert.NoError(t, elector.Run(ctx)) })
		both[i] = standing{elector, func() { cancel(); run.Wait() }}
		synctest.Wait()
	}
	require.NoError(t, both[0].IsLeader(t.Context()))
	require.ErrorIs(t, both[1].IsLeader(t.Context()), elect.ErrNotLeader)
	return both[0], both[1]
}

// The context of a task ends with the term, and the next term begins when the job has returned.
func TestATaskBelongsToTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := stand(t, rlocktest.NewServer(t))
		text, err := second.Leader(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "the first", text)
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(first))
		require.NoError(t, err)
		var began, ended time.Time
		_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), first.Task(func(ctx context.Context) error {
			began = time.Now()
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended = time.Now()
			return nil
		}))
		require.NoError(t, err)
		scheduler.Start()
		synctest.Wait()
		require.False(t, began.IsZero())

		go first.stop()
		within(t, 2*time.Minute, func() bool { return second.IsLeader(t.Context()) == nil })
		assert.Equal(t, time.Minute, ended.Sub(began))
		require.NoError(t, scheduler.Shutdown())
		second.stop()
	})
}
