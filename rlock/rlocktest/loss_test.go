package rlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// lead does a step of its work every minute, for as long as it holds the lock.
func lead(ctx context.Context, lock *rlock.Lock, step func()) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		for ticker := time.NewTicker(time.Minute); ; step() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

func TestALeaderStopsWhenItLosesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		client := server.Client()
		steps, ended := 0, make(chan error, 1)
		go func() { ended <- lead(t.Context(), client.NewLock("leader"), func() { steps++ }) }()

		time.Sleep(10*time.Minute + time.Second)
		server.AssertHeld("leader", client)
		server.Lose("leader")

		if err := <-ended; !errors.Is(err, rlock.ErrLost) {
			t.Errorf("it ended with %v", err)
		}
		if steps != 10 {
			t.Errorf("it did %d steps in 10 minutes", steps)
		}
		server.AssertFree("leader")
	})
}
