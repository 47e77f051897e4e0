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

// once runs the job of an hour unless another replica has run it or is running it.
func once(ctx context.Context, client *rlock.Client, hour string, job func()) error {
	// The lock stays for ten minutes after it was acquired, for the replicas whose clocks are late.
	hold, err := client.NewLock("report:"+hour).Acquire(ctx, rlock.WithWait(0), rlock.WithMinHold(10*time.Minute))
	if errors.Is(err, rlock.ErrNotAcquired) {
		return nil
	}
	if err != nil {
		return err
	}
	job()
	return hold.Release(ctx)
}

func TestTheReportIsSentOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		server.HangAfter(3 * time.Hour)
		var sent atomic.Int64
		var replicas sync.WaitGroup
		for range 3 {
			client := server.Client()
			replicas.Go(func() {
				for range 2 {
					err := once(t.Context(), client, time.Now().Format("2006-01-02T15"), func() { sent.Add(1) })
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Hour)
				}
			})
		}
		replicas.Wait()
		if sent.Load() != 2 {
			t.Errorf("in 2 hours the report was sent %d times", sent.Load())
		}
		server.AssertNothingHeld() // the time of the last hour is over
	})
}
