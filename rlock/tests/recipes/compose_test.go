package recipes

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// inTwo runs a test in virtual time, with clients of two processes.
func inTwo(t *testing.T, run func(t *testing.T, here, there *rlock.Client)) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		run(t, server.Client(), server.Client())
	})
}

func TestTheLatestOfManyEventsIsServed(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		var mu sync.Mutex
		state, indexed, runs := 0, 0, 0
		index := func(context.Context) error {
			mu.Lock()
			read := state
			runs++
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			indexed = read
			return nil
		}
		var all sync.WaitGroup
		for i := range 100 {
			mu.Lock()
			state++
			mu.Unlock()
			all.Go(func() {
				assert.NoError(t, refresh(t.Context(), []*rlock.Client{here, there}[i%2], "42", index))
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		assert.Equal(t, 100, indexed, "the last event was left out")
		assert.LessOrEqual(t, runs, 4, "a hundred events in a second")
	})
}

// Of three calls the second one waits, and works for the third one, although its own caller leaves.
func TestTheCallThatWaitsOutlivesItsCaller(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		runs := 0
		index := func(context.Context) error {
			runs++
			time.Sleep(time.Second)
			return nil
		}
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, refresh(t.Context(), here, "42", index)) })
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() { _ = refresh(ctx, there, "42", index) })
		synctest.Wait()
		require.NoError(t, refresh(t.Context(), here, "42", index))
		assert.Equal(t, 1, runs)
		leave()
		all.Wait()
		assert.Equal(t, 2, runs)
	})
}

func TestAFolderIsLockedWithAllBelow(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		hold, err := subtree(here, "photos/2026").Acquire(t.Context())
		require.NoError(t, err)
		for path, free := range map[string]bool{"photos": false, "photos/2026": false, "photos/2026/march": false, "photos/2025": true, "music": true} {
			other, err := subtree(there, path).Acquire(t.Context(), rlock.WithWait(0))
			if !free {
				require.ErrorIs(t, err, rlock.ErrNotAcquired, path)
				continue
			}
			require.NoError(t, err, path)
			require.NoError(t, other.Release(t.Context()))
		}
		require.NoError(t, hold.Release(t.Context()))
	})
}

// A tenant at its limit does not keep the others waiting. With the names in the other order it
// does.
func TestATenantAtItsLimitHoldsNoCommonPermit(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		var all sync.WaitGroup
		defer all.Wait()
		for range 20 {
			all.Go(func() {
				assert.NoError(t, limited(here, "large").Do(t.Context(), func(context.Context) error {
					time.Sleep(time.Minute)
					return nil
				}))
			})
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, limited(there, "small").Do(t.Context(), func(context.Context) error { return nil }))
		assert.Less(t, time.Since(began), time.Second)
	})
}

func TestAPauseOutlivesItsProcess(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		ended := false
		go func() {
			_ = work(t.Context(), there, func(context.Context) error {
				time.Sleep(time.Second)
				ended = true
				return nil
			})
		}()
		synctest.Wait()
		require.NoError(t, pause(t.Context(), here, 20*time.Minute))
		assert.True(t, ended, "the pause begins when the work has ended")
		require.NoError(t, here.Close())
		began := time.Now()
		nothing := func(context.Context) error { return nil }
		require.NoError(t, work(t.Context(), there, nothing))
		assert.InDelta(t, 20*time.Minute, time.Since(began), float64(5*time.Second))

		require.NoError(t, pause(t.Context(), there, 20*time.Minute))
		require.NoError(t, resume(t.Context(), there))
		began = time.Now()
		require.NoError(t, work(t.Context(), there, nothing))
		assert.Less(t, time.Since(began), 5*time.Second)
	})
}

func TestCallsArePacedAndLimited(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		var mu sync.Mutex
		var began []time.Time
		at, most := 0, 0
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				assert.NoError(t, paced(t.Context(), []*rlock.Client{here, there}[i%2], func(context.Context) error {
					mu.Lock()
					began = append(began, time.Now())
					at++
					most = max(most, at)
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					at--
					return nil
				}))
			})
		}
		all.Wait()
		assert.LessOrEqual(t, most, 3)
		for i := range len(began) - 5 {
			require.GreaterOrEqual(t, began[i+5].Sub(began[i]), 950*time.Millisecond, fmt.Sprint("call ", i))
		}
	})
}
