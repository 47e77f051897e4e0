package calls_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bubble of this package checks that Close leaves no goroutine behind: one that does not
// end fails its test.

func TestCloseReleasesHeldLocks(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		locks := w.Times(testbed.Rounds(1000))
		for i := range locks {
			lock := p.NewLock(fmt.Sprint("lock ", i))
			require.NoError(t, lock.Lock(me))
			if i%10 == 0 {
				require.NoError(t, lock.LockFor(me, time.Hour))
			}
		}
		require.GreaterOrEqual(t, len(w.KeysLeft()), locks)
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, p.Close()) })
		assert.Empty(t, w.KeysLeft())
		assert.Zero(t, p.Logged("lost"), "nothing was")
	})
}

func TestALockThatCloseReleasesIsGrantedAtOnce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, them := w.NewProcess(), w.NewProcess(), w.Caller()
		require.NoError(t, p.NewLock(testbed.Key).Lock(w.Caller()))
		result := testbed.Start(func() error { return other.NewLock(testbed.Key).Rival.Lock(them) })
		require.True(t, testbed.Pending(result))
		require.NoError(t, p.Close())
		testbed.Within(t, 0, 10*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, other.NewLock(testbed.Key).Rival.Unlock(them))
	})
}

func TestCloseReleasesTheReadersAndTheirWaitersAreWoken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, there, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, l.Read.Lock(me))
		hold, err := l.Read.Acquire(w.Ctx)
		require.NoError(t, err)
		writer := testbed.Start(func() error { return there.Write.Do(w.Caller(), testbed.Nothing) })
		require.True(t, testbed.Pending(writer))
		testbed.Within(t, 0, 0, func() {
			require.NoError(t, l.Close())
			require.NoError(t, <-writer)
		})
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		require.ErrorIs(t, l.Read.Unlock(me), rlock.ErrClosed)
		assert.Empty(t, w.Keys())
	})
}

func TestCloseEndsEveryWaitAtOnce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, me := w.NewProcess(), w.NewProcess(), w.Caller()
		require.NoError(t, other.NewLock("theirs").Lock(me))
		require.NoError(t, p.NewLock("ours").Lock(me))
		var results []<-chan error
		for range 3 {
			for _, name := range []string{"theirs", "ours"} {
				them := w.Caller()
				results = append(results, testbed.Start(func() error { return p.NewLock(name).Rival.Lock(them) }))
				results = append(results, testbed.Start(func() error {
					_, err := p.NewLock(name).Rival.TryLockFor(w.Caller(), time.Minute, 0)
					return err
				}))
			}
		}
		synctest.Wait()
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, p.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
		})
		require.NoError(t, other.NewLock("theirs").Unlock(me))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestEveryCallOfAClosedClientReturnsErrClosed(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock, free := p.NewLock(testbed.Key), p.NewLock("free")
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		hold, err := lock.Acquire(me)
		require.NoError(t, err)
		require.NoError(t, p.Close())

		<-hold.Context().Done()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		assert.False(t, hold.Valid())
		assert.True(t, hold.ValidUntil().IsZero())
		assert.False(t, lock.IsHeld(me))
		assert.Zero(t, lock.HoldCount(me))
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrClosed)
		for range 3 {
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrClosed)
		}
		calls := map[string]func() error{
			"Lock":        func() error { return free.Lock(me) },
			"LockFor":     func() error { return free.LockFor(me, time.Second) },
			"TryLock":     func() error { _, err := free.TryLock(me); return err },
			"TryLockFor":  func() error { _, err := free.TryLockFor(me, time.Second, 0); return err },
			"ForceUnlock": func() error { _, err := free.ForceUnlock(me); return err },
			"IsLocked":    func() error { _, err := free.IsLocked(me); return err },
			"TTL":         func() error { _, err := free.TTL(me); return err },
			"Acquire":     func() error { _, err := free.Acquire(me); return err },
			"Attempt":     func() error { _, err := free.Acquire(me, rlock.WithWait(0)); return err },
			"Do":          func() error { return free.Do(me, func(context.Context) error { panic("called") }) },
		}
		for method, call := range calls {
			require.ErrorIs(t, call(), rlock.ErrClosed, method)
			require.NotErrorIs(t, call(), rlock.ErrNotAcquired, method)
		}
	})
}

func TestClosingAgainIsHarmless(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p := w.NewProcess()
		require.NoError(t, p.NewLock(testbed.Key).Lock(w.Caller()))
		var results []<-chan error
		for range 10 {
			results = append(results, testbed.Start(p.Close))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.NoError(t, p.Close())
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAnAcquireThatIsInFlightWhenTheClientIsClosedIsReleased(t *testing.T) {
	for name, stage := range map[string]network.Stage{"the request": network.Request, "the reply": network.Reply} {
		for kind, cancels := range map[string]bool{"a context that may end": true, "a context that never ends": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					p := w.NewClient()
					me := rlock.WithOwner(context.Background(), rlock.NewOwner())
					require.NoError(t, p.NewLock(testbed.Key).Lock(me))
					require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
					if cancels {
						me = w.Caller()
					}
					p.Net.Rule(testbed.Scripts(1, network.Hold, stage, "acquired"))
					result := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
					require.True(t, testbed.Pending(result))
					closed := testbed.Start(p.Close)
					require.True(t, testbed.Pending(closed))
					time.Sleep(time.Second)
					p.Net.Heal()
					require.NoError(t, <-closed)
					require.ErrorIs(t, <-result, rlock.ErrClosed)
					assert.Empty(t, w.Keys())
				})
			})
		}
	}
}

// The message of the grant comes before the answer to the join.
func TestAGrantWhoseJoinIsInFlightWhenTheClientIsClosedIsReleased(t *testing.T) {
	for name, of := range map[string]func([]*rlock.Client, string) testbed.Locker{"plain": testbed.PlainLock, "fenced": testbed.FencedLock, "fair": testbed.FairLock, "read": testbed.ReadLock, "write": testbed.WriteLock} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, holder := w.NewClient(), w.NewClient()
				me, them := w.Caller(), w.Caller()
				lock, theirs := of([]*rlock.Client{p.Client}, testbed.Key), of([]*rlock.Client{holder.Client}, testbed.Key)
				if name == "read" {
					theirs = testbed.WriteLock([]*rlock.Client{holder.Client}, testbed.Key)
				}
				require.NoError(t, lock.Do(w.Ctx, testbed.Nothing)) // the scripts are known
				require.NoError(t, theirs.Lock(them))
				p.Net.Rule(func(f network.Frame) network.Fate {
					if f.Stage == network.Reply && testbed.IsStep(f) && testbed.Joins(f) > 0 {
						return network.Hold
					}
					return network.Pass
				})
				result := testbed.Start(func() error { return lock.Lock(me) })
				require.True(t, testbed.Pending(result))
				require.NoError(t, theirs.Unlock(them))
				synctest.Wait()
				require.True(t, w.Exists(testbed.Key), "it is granted to the ticket")
				closed := testbed.Start(p.Close)
				require.True(t, testbed.Pending(closed))
				p.Net.Heal()
				require.NoError(t, <-closed)
				require.ErrorIs(t, <-result, rlock.ErrClosed)
				assert.False(t, w.Exists(testbed.Key))
			})
		})
	}
}

// A TryLock that is refused by a free lock sends a command that concerns no tenure, and then
// another acquire: Close knows nothing of it that it could wait for.
func TestAnAttemptThatAsksTwiceTakesNothingOnceTheClientIsClosed(t *testing.T) {
	const roundTrip = 100 * time.Millisecond
	for quarters := range 5 {
		t.Run(fmt.Sprintf("closed after %d quarters of a round trip", 4+quarters), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, holder, waiter := w.NewClient(), w.NewClient(), w.NewClient()
				me := w.Caller()
				require.NoError(t, p.NewLock("another").Lock(me)) // the client listens on its channel
				require.NoError(t, p.NewLock("another").Unlock(me))
				require.NoError(t, holder.NewLock(testbed.Key).Lock(w.Caller()))
				ctx, cancel := context.WithCancel(w.Caller())
				waits := testbed.Start(func() error { return waiter.NewLock(testbed.Key).Lock(ctx) })
				require.True(t, testbed.Pending(waits))
				waiter.Die()
				w.Del(testbed.Key) // without a message to the waiter

				p.Net.SetRoundTrip(roundTrip)
				tried := testbed.Start(func() error {
					_, err := p.NewLock(testbed.Key).TryLock(me)
					return err
				})
				time.Sleep(roundTrip + time.Duration(quarters)*roundTrip/4 + 1)
				require.NoError(t, p.Close())
				require.ErrorIs(t, <-tried, rlock.ErrClosed)
				synctest.Wait()
				assert.False(t, w.Exists(testbed.Key))
				cancel()
				require.ErrorIs(t, <-waits, context.Canceled)
			})
		})
	}
}

func TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		var sections atomic.Int64
		rounds := w.Times(20)
		for round := range rounds {
			var results []<-chan error
			here, there := w.NewProcess(), w.NewProcess()
			for _, p := range []*testbed.Peer{here, there} {
				for range 4 {
					me := w.Caller()
					results = append(results, testbed.Start(func() error {
						for {
							hold, err := p.NewLock(testbed.Key).Acquire(me)
							if err != nil {
								return err
							}
							sections.Add(1)
							time.Sleep(time.Millisecond)
							if err := hold.Release(me); err != nil {
								return err
							}
						}
					}))
				}
			}
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			if round == rounds-1 { // clients that split the votes at first need longer
				w.Eventually(func() bool { return sections.Load() > 0 }, "a client gets the lock")
			}
			require.NoError(t, here.Close())
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			require.NoError(t, there.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
			require.Empty(t, w.KeysLeft())
		}
	})
}

// ours returns how many goroutines this package has started.
func ours() (n int) {
	buffer := make([]byte, 64<<20)
	stacks := string(buffer[:runtime.Stack(buffer, true)])
	return strings.Count(stacks, "\ncreated by github.com/go-rlock/rlock/rlock.")
}

// Contexts end before, while and after Close gives up.
func TestNoGoroutineOutlivesClose(t *testing.T) {
	redistest.Slow(t)
	for name, connect := range connections {
		for when, begin := range map[string]time.Duration{"all the time": 0, "when Close gives up": 3 * time.Second} {
			t.Run(name+", "+when, func(t *testing.T) {
				testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) { closeAtASilentServer(t, w, connect, begin) })
			})
		}
	}
}
