package calls_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Attempts of one process that come while the command of another call is in flight.

// atOnce calls try in many goroutines, each an owner, and returns when all have returned.
func atOnce(n int, try func(ctx context.Context) error) (errs []error) {
	errs = make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = try(rlock.WithOwner(context.Background(), rlock.NewOwner())) })
	}
	wg.Wait()
	return errs
}

func TestReadersThatTryAtOnceReadTogether(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewReadWriteLock(testbed.Key).Read()
		require.NoError(t, lock.Do(w.Ctx, testbed.Nothing)) // Redis has the script
		p.Net.SetRoundTrip(100 * time.Millisecond)
		before := len(p.Acquires())
		var granted atomic.Int64
		errs := atOnce(20, func(ctx context.Context) error {
			ok, err := lock.TryLock(ctx)
			if ok {
				granted.Add(1)
			}
			return err
		})
		for _, err := range errs {
			require.NoError(t, err)
		}
		assert.EqualValues(t, 20, granted.Load())
		assert.Equal(t, before+1, len(p.Acquires()), "commands")
	})
}

// One answer refuses all attempts: none is refused before, and none sends a command of its own.
func TestOneAnswerRefusesAllAttempts(t *testing.T) {
	for name, newLock := range testbed.LocksOf("plain", "fair", "fenced", "write") {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				hold := testbed.Take(t, w.Ctx, newLock(w.NewClient().Client))
				p := w.NewClient()
				p.Net.SetRoundTrip(100 * time.Millisecond)
				began := time.Now()
				for _, err := range atOnce(20, func(ctx context.Context) error {
					return testbed.ErrorOf(newLock(p.Client).Acquire(ctx, rlock.WithWait(0)))
				}) {
					require.ErrorIs(t, err, rlock.ErrNotAcquired)
				}
				assert.Equal(t, 100*time.Millisecond, time.Since(began), "a round trip")
				assert.Len(t, p.Acquires(), 1, "commands")
				testbed.Release(t, w.Ctx, hold)
			})
		})
	}
}

// Unreachable is not busy: while Redis is silent, refuses connections or answers with an error, no call is told that
// another owner has the lock.
func TestNoCallIsRefusedByARedisThatDoesNotAnswer(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		for name, fails := range map[string]func(*testbed.Peer){"silent": (*testbed.Peer).Silence, "refuses": (*testbed.Peer).Refuse} {
			for _, wait := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second} {
				p := w.NewProcess()
				lock := p.NewLock(fmt.Sprint(testbed.Key, name, wait))
				require.NoError(t, lock.Do(w.Ctx, testbed.Nothing))
				fails(p)
				began := time.Now()
				for _, err := range atOnce(20, func(ctx context.Context) error {
					return testbed.ErrorOf(lock.Acquire(ctx, rlock.WithWait(wait)))
				}) {
					require.Error(t, err)
					require.NotErrorIs(t, err, rlock.ErrNotAcquired, "%s, %v", name, wait)
				}
				assert.Less(t, time.Since(began), 15*time.Second, "%s, %v", name, wait)
				p.Heal()
			}
		}
	})
}
