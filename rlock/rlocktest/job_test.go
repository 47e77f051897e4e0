package rlocktest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// once runs the job of a day unless another replica has run it or is running it.
func once(ctx context.Context, client *rlock.Client, day string, job func()) error {
	// The lock stays for ten minutes after it was acquired, for the replicas whose clocks are late.
	hold, err := client.NewLock("report:"+day).Acquire(ctx, rlock.WithWait(0), rlock.WithMinHold(10*time.Minute))
	if errors.Is(err, rlock.ErrNotAcquired) {
		return nil
	}
	if err != nil {
		return err
	}
	job()
	return hold.Release(ctx)
}

func TestTheReportIsSentOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		server.HangAfter(3 * 24 * time.Hour)
		var sent atomic.Int64
		var replicas sync.WaitGroup
		for range 3 {
			client := server.Client()
			replicas.Go(func() {
				for range 2 {
					err := once(t.Context(), client, time.Now().Format(time.DateOnly), func() { sent.Add(1) })
					if err != nil {
						t.Error(err)
					}
					time.Sleep(24 * time.Hour)
				}
			})
		}
		replicas.Wait()
		if sent.Load() != 2 {
			t.Errorf("in 2 days the report was sent %d times", sent.Load())
		}
		server.AssertNothingHeld() // the time of the last day is over
	})
}
