package rlock_test

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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bubble of this package checks that Close leaves no goroutine behind: one that does not
// end fails its test.

func TestCloseReleasesHeldLocks(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		locks := w.times(rounds(1000))
		for i := range locks {
			lock := p.lock(fmt.Sprint("lock ", i))
			require.NoError(t, lock.Lock(me))
			if i%10 == 0 {
				require.NoError(t, lock.LockFor(me, time.Hour))
			}
		}
		require.GreaterOrEqual(t, len(w.keys()), locks)
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, p.Close()) })
		assert.Empty(t, w.keys())
		assert.Zero(t, p.logged("lost"), "nothing was")
	})
}

func TestALockThatCloseReleasesIsGrantedAtOnce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, them := w.process(), w.process(), w.caller()
		require.NoError(t, p.lock(key).Lock(w.caller()))
		result := start(func() error { return other.lock(key).rival.Lock(them) })
		require.True(t, pending(result))
		require.NoError(t, p.Close())
		within(t, 0, 10*time.Millisecond, func() { require.NoError(t, <-result) })
		require.NoError(t, other.lock(key).rival.Unlock(them))
	})
}

func TestCloseReleasesTheReadersAndTheirWaitersAreWoken(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, l.read.Lock(me))
		hold, err := l.read.Acquire(w.ctx)
		require.NoError(t, err)
		writer := start(func() error { return there.write.Do(w.caller(), nothing) })
		require.True(t, pending(writer))
		within(t, 0, 0, func() {
			require.NoError(t, l.Close())
			require.NoError(t, <-writer)
		})
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrClosed)
		assert.Empty(t, w.Keys())
	})
}

func TestCloseEndsEveryWaitAtOnce(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, other, me := w.process(), w.process(), w.caller()
		require.NoError(t, other.lock("theirs").Lock(me))
		require.NoError(t, p.lock("ours").Lock(me))
		var results []<-chan error
		for range 3 {
			for _, name := range []string{"theirs", "ours"} {
				them := w.caller()
				results = append(results, start(func() error { return p.lock(name).rival.Lock(them) }))
				results = append(results, start(func() error {
					_, err := p.lock(name).rival.TryLockFor(w.caller(), time.Minute, 0)
					return err
				}))
			}
		}
		synctest.Wait()
		within(t, 0, 100*time.Millisecond, func() {
			require.NoError(t, p.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
		})
		require.NoError(t, other.lock("theirs").Unlock(me))
		w.drain()
		assert.Empty(t, w.keys())
	})
}

func TestEveryCallOfAClosedClientReturnsErrClosed(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p, me := w.process(), w.caller()
		lock, free := p.lock(key), p.lock("free")
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
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrClosed)
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
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		p := w.process()
		require.NoError(t, p.lock(key).Lock(w.caller()))
		var results []<-chan error
		for range 10 {
			results = append(results, start(p.Close))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.NoError(t, p.Close())
		assert.Empty(t, w.keys())
	})
}

func TestAnAcquireThatIsInFlightWhenTheClientIsClosedIsReleased(t *testing.T) {
	for name, stage := range map[string]network.Stage{"the request": network.Request, "the reply": network.Reply} {
		for kind, cancels := range map[string]bool{"a context that may end": true, "a context that never ends": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					p := w.client()
					me := rlock.WithOwner(context.Background(), rlock.NewOwner())
					require.NoError(t, p.NewLock(key).Lock(me))
					require.NoError(t, p.NewLock(key).Unlock(me))
					if cancels {
						me = w.caller()
					}
					p.net.Rule(scripts(1, network.Hold, stage, "acquired"))
					result := start(func() error { return p.NewLock(key).Lock(me) })
					require.True(t, pending(result))
					closed := start(p.Close)
					require.True(t, pending(closed))
					time.Sleep(time.Second)
					p.net.Heal()
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
	for name, of := range map[string]func([]*rlock.Client, string) locker{"plain": plainLock, "fenced": fencedLock, "fair": fairLock, "read": readLock, "write": writeLock} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, holder := w.client(), w.client()
				me, them := w.caller(), w.caller()
				lock, theirs := of([]*rlock.Client{p.Client}, key), of([]*rlock.Client{holder.Client}, key)
				if name == "read" {
					theirs = writeLock([]*rlock.Client{holder.Client}, key)
				}
				require.NoError(t, lock.Do(w.ctx, nothing)) // the scripts are known
				require.NoError(t, theirs.Lock(them))
				p.net.Rule(func(f network.Frame) network.Fate {
					if f.Stage == network.Reply && isStep(f) && joins(f) > 0 {
						return network.Hold
					}
					return network.Pass
				})
				result := start(func() error { return lock.Lock(me) })
				require.True(t, pending(result))
				require.NoError(t, theirs.Unlock(them))
				synctest.Wait()
				require.True(t, w.Exists(key), "it is granted to the ticket")
				closed := start(p.Close)
				require.True(t, pending(closed))
				p.net.Heal()
				require.NoError(t, <-closed)
				require.ErrorIs(t, <-result, rlock.ErrClosed)
				assert.False(t, w.Exists(key))
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
			bubble(t, func(t *testing.T, w *world) {
				p, holder, waiter := w.client(), w.client(), w.client()
				me := w.caller()
				require.NoError(t, p.NewLock("another").Lock(me)) // the client listens on its channel
				require.NoError(t, p.NewLock("another").Unlock(me))
				require.NoError(t, holder.NewLock(key).Lock(w.caller()))
				ctx, cancel := context.WithCancel(w.caller())
				waits := start(func() error { return waiter.NewLock(key).Lock(ctx) })
				require.True(t, pending(waits))
				waiter.die()
				w.Del(key) // without a message to the waiter

				p.net.SetRoundTrip(roundTrip)
				tried := start(func() error {
					_, err := p.NewLock(key).TryLock(me)
					return err
				})
				time.Sleep(roundTrip + time.Duration(quarters)*roundTrip/4 + 1)
				require.NoError(t, p.Close())
				require.ErrorIs(t, <-tried, rlock.ErrClosed)
				synctest.Wait()
				assert.False(t, w.Exists(key))
				cancel()
				require.ErrorIs(t, <-waits, context.Canceled)
			})
		})
	}
}

func TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind(t *testing.T) {
	eachVirtualKind(t, func(t *testing.T, w *virtualKind) {
		var sections atomic.Int64
		rounds := w.times(20)
		for round := range rounds {
			var results []<-chan error
			here, there := w.process(), w.process()
			for _, p := range []*peer{here, there} {
				for range 4 {
					me := w.caller()
					results = append(results, start(func() error {
						for {
							hold, err := p.lock(key).Acquire(me)
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
				w.eventually(func() bool { return sections.Load() > 0 }, "a client gets the lock")
			}
			require.NoError(t, here.Close())
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			require.NoError(t, there.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
			require.Empty(t, w.keys())
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
				bubbleAlone(t, func(t *testing.T, w *world) { closeAtASilentServer(t, w, connect, begin) })
			})
		}
	}
}
