package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

func TestTheJobOfAnIntervalRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		first, second := locker{server.Client(), time.Second}, locker{server.Client(), time.Second}
		lock, err := first.Lock(t.Context(), "report")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		_, err = second.Lock(t.Context(), "report")
		require.Error(t, err)
		time.Sleep(time.Second)
		_, err = second.Lock(t.Context(), "report")
		assert.NoError(t, err)
	})
}

func TestASchedulerThatIsTooLateForItsIntervalHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		slow := server.Client(func(config *rlock.Config) {
			config.Observer = &rlock.Observer{Acquired: func(context.Context, rlock.AcquiredInfo) { time.Sleep(time.Minute) }}
		})
		_, err := locker{slow, time.Second}.Lock(t.Context(), "report")
		require.ErrorIs(t, err, rlock.ErrLost)
		server.AssertNothingHeld()
		_, err = locker{server.Client(), time.Second}.Lock(t.Context(), "report")
		assert.NoError(t, err)
	})
}
