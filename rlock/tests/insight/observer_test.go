package insight_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func withObserver(o *rlock.Observer) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Observer = o }
}

// Those of a batch may fail, for one lock or for all.
func TestAnObserverIsToldOfEachBatchOfRenewals(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		batches := make(chan rlock.RenewedInfo, 100)
		p := w.NewClient(testbed.WithLease(3*time.Second), withObserver(&rlock.Observer{Renewed: func(i rlock.RenewedInfo) { batches <- i }}))
		me := w.Caller()
		for i := range 40 {
			require.NoError(t, p.NewLock(fmt.Sprint(i)).Lock(me))
		}
		time.Sleep(1100 * time.Millisecond)
		first := <-batches
		assert.Empty(t, batches)
		assert.EqualValues(t, 40, p.Stats().Renewals)
		assert.EqualValues(t, 40+2, p.Stats().Commands, "two batches, one of 32 keys")
		assert.InDelta(t, 2, first.Margin.Seconds(), 0.1)
		first.Margin, first.Took = 0, 0
		assert.Equal(t, rlock.RenewedInfo{Client: p.Client, Locks: 40, Kept: 40, Lease: 3 * time.Second}, first)
		w.Del("7")
		time.Sleep(time.Second)
		second := <-batches
		assert.Equal(t, []int{40, 1}, []int{second.Locks, second.Failed})
		w.AnswerScripts("ERR no script today")
		time.Sleep(time.Second)
		third := <-batches
		assert.Equal(t, 39, third.Failed)
		require.ErrorContains(t, third.Err, "no script today")
		w.AnswerScripts("")
	})
}
