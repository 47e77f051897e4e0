package groups_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
)

// One process releases its own red lock by force and takes it again, beside two others that wait
// for it. The round trips to the three servers differ, so that the commands of the three reach them
// in many orders.
func TestAForcedRedLockHasOneHolderInAnyOrder(t *testing.T) {
	quorumOf(3, t, func(t *testing.T, w *fiveWorlds) {
		forcer, second, third := w.member(), w.member(), w.member()
		var inside, overlaps, lost, held atomic.Int32
		section := func(m *member) {
			ctx := w.Caller()
			h, err := m.Acquire(ctx, rlock.WithWait(time.Minute))
			if !assert.NoError(t, err) {
				return
			}
			held.Add(1)
			if h.Valid() && inside.Add(1) > 1 {
				overlaps.Add(1)
			}
			time.Sleep(3 * time.Millisecond)
			inside.Add(-1)
			if h.Release(ctx) != nil {
				lost.Add(1)
			}
		}
		for order := range 1 << 6 {
			for i := range 3 {
				forcer.TestClients[i].Net.SetRoundTrip(time.Duration(1+5*(order>>i&1)) * time.Millisecond)
				second.TestClients[i].Net.SetRoundTrip(time.Duration(2+7*(order>>(3+i)&1)) * time.Millisecond)
				third.TestClients[i].Net.SetRoundTrip(time.Duration(1+4*((order>>i^order>>(3+i))&1)) * time.Millisecond)
			}
			var all sync.WaitGroup
			for _, m := range []*member{second, third} {
				all.Go(func() {
					for range 3 {
						section(m)
						time.Sleep(time.Millisecond)
					}
				})
			}
			ctx := w.Caller()
			assert.ErrorIs(t, forcer.Do(ctx, func(ctx context.Context) error {
				freed, err := forcer.ForceUnlock(context.WithoutCancel(ctx))
				assert.NoError(t, err)
				assert.True(t, freed)
				<-ctx.Done()
				return nil
			}, rlock.WithWait(time.Minute)), rlock.ErrLost)
			section(forcer)
			all.Wait()
		}
		assert.Zero(t, overlaps.Load(), "of %d holds", held.Load())
		assert.Zero(t, lost.Load(), "of %d holds", held.Load())
	})
}
