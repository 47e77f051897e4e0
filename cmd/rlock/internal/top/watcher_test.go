package top_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/top"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// row returns the row of a lock, and whether there is one.
func row(look top.Look, name string) (top.Row, bool) {
	for _, row := range look.Rows {
		if row.Name == name {
			return row, true
		}
	}
	return top.Row{}, false
}

func TestARateCountsTheHoldersThatAreNewAtALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		client := server.Client()
		lock := client.NewLock("orders:1")
		watcher := top.NewWatcher(server.Client(), 10)
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		first, _ := row(watcher.Look(t.Context(), ""), "orders:1")
		assert.Negative(t, first.Rate, "one look gives no rate")
		for range 5 { // another tenure at every second look
			time.Sleep(time.Second)
			same, _ := row(watcher.Look(t.Context(), ""), "orders:1")
			assert.Equal(t, time.Second, same.Seen)
			require.NoError(t, hold.Release(t.Context()))
			hold, err = lock.Acquire(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
			other, _ := row(watcher.Look(t.Context(), ""), "orders:1")
			assert.Zero(t, other.Seen)
		}
		look := watcher.Look(t.Context(), "")
		got, _ := row(look, "orders:1")
		assert.InDelta(t, 0.5, got.Rate, 0.06)
		assert.InDelta(t, 0.5, look.Totals().Rate, 0.06)

		// A free lock is shown for a while after it was held, and then no more.
		require.NoError(t, hold.Release(t.Context()))
		time.Sleep(time.Second)
		free, there := row(watcher.Look(t.Context(), ""), "orders:1")
		require.True(t, there)
		assert.Zero(t, free.HolderCount)
		for range 10 {
			time.Sleep(time.Second)
			watcher.Look(t.Context(), "")
		}
		_, there = row(watcher.Look(t.Context(), ""), "orders:1")
		assert.False(t, there)

		// A lock that was free at the look before has a new holder; one that was not
		// inspected may have the same holder.
		_, err = lock.Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		taken, _ := row(watcher.Look(t.Context(), ""), "orders:1")
		assert.Positive(t, taken.Rate)
		_, err = client.NewLock("stock:1").Acquire(t.Context())
		require.NoError(t, err)
		watcher.Look(t.Context(), "orders:*")
		time.Sleep(time.Second)
		unknown, _ := row(watcher.Look(t.Context(), ""), "stock:1")
		assert.Negative(t, unknown.Rate)
	})
}

func TestALookShowsNoFreeLockThatThePatternDoesNotMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		client := server.Client()
		_, err := client.NewLock("orders:1").Acquire(t.Context())
		require.NoError(t, err)
		watcher := top.NewWatcher(server.Client(), 10)
		watcher.Look(t.Context(), "")
		hold, err := client.NewLock("stock:1").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		watcher.Look(t.Context(), "")
		require.NoError(t, hold.Release(t.Context()))
		time.Sleep(time.Second)
		free, there := row(watcher.Look(t.Context(), ""), "stock:1")
		require.True(t, there, "a free lock is shown for a while")
		require.Positive(t, free.Rate)

		for range 3 {
			look := watcher.Look(t.Context(), "orders:*")
			require.NoError(t, look.Err)
			assert.Len(t, look.Rows, 1)
			_, there = row(look, "orders:1")
			assert.True(t, there)
			assert.Zero(t, look.LeftOut)
			time.Sleep(time.Second)
		}
	})
}

func TestALookIsBoundedAndTellsHowManyLocksAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		client := server.Client()
		for i := range 9 {
			_, err := client.NewLock(fmt.Sprintf("lock:%d", i)).Acquire(t.Context())
			require.NoError(t, err)
		}
		waiter := server.Client()
		go func() { _, _ = waiter.NewLock("lock:8").Acquire(t.Context()) }()
		synctest.Wait()
		watcher := top.NewWatcher(server.Client(), 2)
		shown := make(map[string]int)
		for range 20 {
			look := watcher.Look(t.Context(), "")
			require.NoError(t, look.Err)
			assert.Len(t, look.Rows, 2)
			assert.Equal(t, 7, look.LeftOut)
			assert.False(t, look.More)
			for _, row := range look.Rows {
				shown[row.Name]++
			}
			time.Sleep(time.Second)
		}
		assert.Len(t, shown, 9, "each lock has its turn")
		assert.Greater(t, shown["lock:8"], 14, "a lock with a waiter is inspected at each look")

		for i := range 20 {
			_, err := client.NewLock(fmt.Sprintf("more:%d", i)).Acquire(t.Context())
			require.NoError(t, err)
		}
		look := watcher.Look(t.Context(), "")
		assert.True(t, look.More)
		assert.GreaterOrEqual(t, look.LeftOut, 18)
		assert.Contains(t, look.Summary(), "more than")
	})
}
