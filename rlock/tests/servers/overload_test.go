package servers_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server is silent while thousands of calls need it.

// callers starts size calls, each with a number, and returns the function that ends them.
func callers(t *testing.T, ctx context.Context, size int, call func(ctx context.Context, i int) error) (disperse func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	results := make([]<-chan error, size)
	for i := range results {
		results[i] = testbed.Start(func() error { return call(rlock.WithOwner(ctx, rlock.NewOwner()), i) })
	}
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		for _, result := range results {
			require.Error(t, <-result)
		}
	}
}

func TestUnlockIsBoundedHoweverManyLocksAreAskedForMeanwhile(t *testing.T) {
	for name, call := range map[string]func(p *testbed.Client) func(context.Context, int) error{
		"locks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"fair locks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewFairLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"looks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error {
				_, err := p.NewLock(fmt.Sprint("lock ", i)).IsLocked(ctx)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				lock := p.NewLock(testbed.Key)
				require.NoError(t, lock.Lock(me))
				require.NoError(t, lock.Unlock(me)) // the scripts are known
				require.NoError(t, lock.Lock(me))
				p.Net.Rule(network.Silence)
				disperse := callers(t, w.Ctx, 4000, call(p))
				testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
				testbed.Within(t, 0, 0, disperse)
			})
		})
	}
}

func TestAReleaseGoesBeforeAsks(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me)) // the scripts are known
		require.NoError(t, lock.Lock(me))
		p.Net.SetRoundTrip(time.Second)
		disperse := callers(t, w.Ctx, 4000, func(ctx context.Context, i int) error {
			err := p.NewLock(fmt.Sprint("lock ", i)).Lock(ctx)
			if err == nil {
				<-ctx.Done()
				return ctx.Err()
			}
			return err
		})
		testbed.Within(t, time.Second, time.Second, func() { require.NoError(t, lock.Unlock(me)) })
		p.Net.SetRoundTrip(0)
		disperse()
	})
}

func TestACancelledLockReturnsAtOnceHoweverManyLooksWait(t *testing.T) {
	for name, patience := range map[string]time.Duration{
		"looks that wait":        time.Hour,
		"looks that leave early": 10 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				require.NoError(t, p.NewLock(testbed.Key).Lock(me))
				require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
				p.Net.Rule(network.Silence)
				disperse := callers(t, w.Ctx, 3000, func(ctx context.Context, i int) error {
					for {
						limited, cancel := context.WithTimeout(ctx, patience)
						_, err := p.NewLock(fmt.Sprint("lock ", i)).IsLocked(limited)
						cancel()
						if ctx.Err() != nil || patience == time.Hour {
							return err
						}
					}
				})
				time.Sleep(100 * time.Millisecond)
				ctx, cancel := context.WithCancel(me)
				result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(ctx) })
				require.True(t, testbed.Pending(result))
				testbed.Within(t, 0, 0, func() {
					cancel()
					require.ErrorIs(t, <-result, context.Canceled)
				})
				testbed.Within(t, 0, 0, disperse)
			})
		})
	}
}

func TestALookOutlivesAConnectionThatEnds(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(me))
		p.Net.Rule(network.Nth(1, network.Cut, network.Reply, "EXISTS"))
		locked, err := p.NewLock(testbed.Key).IsLocked(w.Ctx)
		require.NoError(t, err)
		assert.True(t, locked)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(me))
	})
}

// An acquisition asks the silent server too, and its goroutines end with the hold. But once
// the server has been silent for a while, locks of other names do not ask it.
func TestARedLockWithASilentServerLeavesABoundedNumberOfGoroutines(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		clients := make([]*rlock.Client, 3)
		var last *rlocktest.Server
		for i := range clients {
			last = rlocktest.NewServer(t)
			clients[i] = last.Client()
		}
		require.NoError(t, rlock.NewRedLock(clients, testbed.Key).Do(w.Ctx, func(context.Context) error { return nil }))
		synctest.Wait()
		before := runtime.NumGoroutine()
		last.Silence()
		var holds []*rlock.Hold
		for i := range testbed.Thorough(50_000, 1500) {
			hold, err := rlock.NewRedLock(clients, fmt.Sprint("lock ", i)).Acquire(w.Ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
			time.Sleep(300 * time.Microsecond)
		}
		synctest.Wait()
		assert.Less(t, runtime.NumGoroutine()-before, 2000, "two for each command that was sent before the server was taken for dead")
		for _, hold := range holds {
			require.NoError(t, hold.Release(w.Ctx))
		}
		last.Heal()
	})
}
