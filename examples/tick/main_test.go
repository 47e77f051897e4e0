package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/rlocktest"
)

func TestAReplicaThatIsLateDoesNotRunTheJobAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		server.HangAfter(3 * 24 * time.Hour)
		var runs atomic.Int64
		var group sync.WaitGroup
		for replica := range replicas {
			client := server.Client()
			group.Go(func() {
				for tick := range 60 { // one a minute
					time.Sleep(time.Duration(replica) * lease / replicas)
					assert.NoError(t, once(t.Context(), client, fmt.Sprint("tick ", tick), func() { runs.Add(1) }))
					time.Sleep(time.Minute - time.Duration(replica)*lease/replicas)
				}
				assert.NoError(t, client.Close())
			})
		}
		group.Wait()
		assert.EqualValues(t, 60, runs.Load())
		server.AssertNothingHeld()
	})
}

func TestAReplicaThatEndsLeavesTheTickLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		server.HangAfter(3 * 24 * time.Hour)
		first, second := server.Client(), server.Client()
		assert.NoError(t, once(t.Context(), first, "tick", func() {}))
		assert.NoError(t, first.Close())
		assert.NoError(t, once(t.Context(), second, "tick", func() { t.Error("the job ran twice") }))
		time.Sleep(lease)
		server.AssertFree("tick")
	})
}
