package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Callers that are told where they stand: WithProgress.

// A sight is where a caller was told that it stands, in order.
type sight struct {
	mu   sync.Mutex
	seen []string
}

func (s *sight) option() rlock.AcquireOption {
	return rlock.WithProgress(func(place, waiting int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprintf("%d of %d", place, waiting))
	})
}

// all returns where the caller was told that it stands, once for as long as it stayed there.
func (s *sight) all() []string { return slices.Compact(s.told()) }

func (s *sight) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func (s *sight) last() string {
	if all := s.all(); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// waits starts a call that releases the lock when it has it.
func (s *sight) waits(ctx context.Context, l *rlock.Lock, options ...rlock.AcquireOption) <-chan error {
	return testbed.Start(func() error { return l.Do(ctx, testbed.Nothing, append(options, s.option())...) })
}

// held returns a hold of another client, and what releases it.
func heldElsewhere(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) *rlock.Hold {
	h := testbed.Take(t, w.Ctx, of(w.NewClient().Client))
	return h
}

// A caller is told every two seconds, also where its place stays the same: behind a holder of its
// own process as well, where nothing is sent while it waits.
func TestACallerIsToldEveryTwoSeconds(t *testing.T) {
	for name, own := range map[string]bool{"behind another process": false, "behind its own process": true} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient()
				holder := p
				if !own {
					holder = w.NewClient()
				}
				held := testbed.Take(t, w.Ctx, holder.NewLock(testbed.Key))
				var s sight
				mine := s.waits(w.Caller(), p.NewLock(testbed.Key))
				time.Sleep(time.Minute + time.Second)
				assert.InDelta(t, 31, len(s.told()), 2)
				assert.Equal(t, []string{"1 of 1"}, s.all())
				require.NoError(t, held.Release(w.Ctx))
				require.NoError(t, <-mine)
			})
		})
	}
}

// However tickets come and go, and whatever is in flight, a caller that knows its place is told
// within two seconds again.
func TestACallerInACrowdIsToldWithinTwoSecondsAgain(t *testing.T) {
	testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
		var mu sync.Mutex
		var longest time.Duration
		waits := func(l *rlock.Lock) { // once, for a while
			ctx, cancel := context.WithTimeout(w.Caller(), time.Duration(rand.IntN(30)+1)*time.Second)
			defer cancel()
			var last time.Time
			told := func(int, int) {
				mu.Lock()
				defer mu.Unlock()
				if !last.IsZero() {
					longest = max(longest, time.Since(last))
				}
				last = time.Now()
			}
			if h, err := l.Acquire(ctx, rlock.WithProgress(told)); err == nil {
				told(0, 0)
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
				assert.NoError(t, h.Release(w.Ctx))
			}
		}
		var callers sync.WaitGroup
		end := time.Now().Add(2 * time.Minute)
		for range 3 {
			p := w.NewClient()
			p.Net.SetRoundTrip(20 * time.Millisecond)
			for range 4 {
				callers.Go(func() {
					for time.Now().Before(end) {
						waits(of(p.Client))
					}
				})
			}
		}
		callers.Wait()
		assert.LessOrEqual(t, longest, 2*time.Second)
	})
}

// Callers that come at once are told places without gaps, in whatever order their tickets have come
// to Redis.
func TestCallersThatComeAtOnceHaveEachPlaceOnce(t *testing.T) {
	for _, shared := range []bool{false, true} {
		testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
			held := heldElsewhere(t, w, of)
			p := w.NewClient()
			const n = 8
			var all [n]sight
			var results []<-chan error
			for i := range all {
				var options []rlock.AcquireOption
				if !shared {
					options = append(options, rlock.WithMaxWaiters(2*n))
				}
				results = append(results, all[i].waits(w.Caller(), of(p.Client), options...))
			}
			time.Sleep(5 * time.Second)
			var told, want []string
			for i := range all {
				told, want = append(told, all[i].last()), append(want, fmt.Sprintf("%d of %d", i+1, n))
			}
			slices.Sort(told)
			assert.Equal(t, want, told)
			require.NoError(t, held.Release(w.Ctx))
			for _, r := range results {
				require.NoError(t, <-r)
			}
		})
	}
}

// A function that does not return costs others a second: the lock that its call was granted is
// released then, and the call waits again when it has returned.
func TestAFunctionThatBlocksDoesNotHoldTheLock(t *testing.T) {
	testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
		p, other := w.NewClient(), w.NewClient()
		held := testbed.Take(t, w.Ctx, of(other.Client))
		goOn, once := make(chan struct{}), sync.Once{}
		stuck := testbed.Waits(t, func() error {
			return of(p.Client).Do(w.Caller(), testbed.Nothing, rlock.WithProgress(func(int, int) { once.Do(func() { <-goOn }) }))
		})
		brief, cancel := context.WithTimeout(w.Caller(), time.Second)
		defer cancel()
		leaves := testbed.Waits(t, func() error {
			return of(w.NewClient().Client).Do(brief, testbed.Nothing, rlock.WithProgress(func(int, int) { <-goOn }))
		})
		require.NoError(t, held.Release(w.Ctx))
		began := time.Now()
		held = testbed.Take(t, w.Ctx, of(other.Client))
		assert.Less(t, time.Since(began), 5*time.Second)
		assert.Empty(t, p.Held())
		close(goOn)
		require.ErrorIs(t, <-leaves, context.DeadlineExceeded)
		require.True(t, testbed.Pending(stuck))
		require.NoError(t, held.Release(w.Ctx))
		require.NoError(t, testbed.Soon(stuck))
		assert.Zero(t, p.Stats().Held)
		assert.Zero(t, p.Stats().Waiting)
	})
}

// A call that has missed its turn waits for the rest of its time, and no longer.
func TestACallThatHasMissedItsTurnWaitsForTheRestOfItsTime(t *testing.T) {
	testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
		other := of(w.NewClient().Client)
		held, began, goOn := testbed.Take(t, w.Ctx, other), time.Now(), make(chan struct{})
		misses := testbed.Waits(t, func() error {
			return of(w.NewClient().Client).Do(w.Caller(), testbed.Nothing, rlock.WithWait(10*time.Second), rlock.WithProgress(func(int, int) { <-goOn }))
		})
		require.NoError(t, held.Release(w.Ctx))
		held = testbed.Take(t, w.Ctx, other)
		time.Sleep(5*time.Second - time.Since(began))
		close(goOn)
		require.ErrorIs(t, <-misses, rlock.ErrNotAcquired)
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, held.Release(w.Ctx))
	})
}

// No other call waits for a function that does not return, although its call has to ask Redis
// first.
func TestAFunctionThatBlocksDelaysNoOtherCall(t *testing.T) {
	testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
		lock := of(w.NewClient().Client)
		held, err := lock.Acquire(w.Ctx, rlock.WithMinHold(time.Minute))
		require.NoError(t, err)
		goOn, running := make(chan struct{}), atomic.Int32{}
		stuck := testbed.Waits(t, func() error {
			return lock.Do(w.Caller(), testbed.Nothing, rlock.WithProgress(func(int, int) {
				assert.EqualValues(t, 1, running.Add(1), "it runs twice at a time")
				<-goOn
				running.Add(-1)
			}))
		})
		time.Sleep(5 * time.Second)             // it would be told again
		require.NoError(t, held.Release(w.Ctx)) // Redis keeps the lock for the rest of the minute
		_, err = lock.Acquire(w.Caller(), rlock.WithWait(5*time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		locked, err := lock.TryLock(w.Caller())
		require.NoError(t, err)
		require.False(t, locked)
		close(goOn)
		require.NoError(t, <-stuck)
	})
}

// errTold is the panic of a function.
var errTold = errors.New("told")

func panics() { panic(errTold) }

// toldAll asserts that the panic of a caller says what the function has panicked with, and where.
func toldAll(t *testing.T, why any) {
	t.Helper()
	err, _ := why.(error)
	require.ErrorIs(t, err, errTold)
	assert.Contains(t, err.Error(), "progress_test.go")
	assert.Contains(t, err.Error(), ".panics(")
}

// If the function panics, or ends the goroutine, nothing is held and no place is taken: also if the
// lock was granted meanwhile.
func TestAFunctionThatPanicsReleasesTheLock(t *testing.T) {
	for name, end := range map[string]func(){"panics": panics, "ends the goroutine": runtime.Goexit} {
		for _, granted := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", granted ", granted), func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					held := heldElsewhere(t, w, waitersOf["plain"])
					p := w.NewClient()
					goOn, ended := make(chan struct{}), make(chan any, 1)
					go func() {
						defer func() { ended <- recover() }()
						_, _ = p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithProgress(func(int, int) { <-goOn; end() }))
					}()
					synctest.Wait()
					require.Len(t, w.Queued(), 1)
					time.Sleep(time.Second)
					if granted {
						require.NoError(t, held.Release(w.Ctx))
						synctest.Wait()
					}
					close(goOn)
					if why := <-ended; name == "panics" {
						toldAll(t, why)
					}
					synctest.Wait()
					assert.Empty(t, w.Queued())
					assert.Zero(t, p.Stats().Held)
					assert.Zero(t, p.Stats().Waiting)
					assert.Equal(t, time.Second, p.Stats().WaitTime)
					if !granted {
						require.NoError(t, held.Release(w.Ctx))
					}
					require.Eventually(t, func() bool { return w.IsFree(p.NewLock(testbed.Key)) }, time.Minute, time.Millisecond)
				})
			})
		}
	}
}

// A function that ends after its call has missed its turn takes nothing from the next holder, which
// may be the same owner.
func TestAFunctionThatPanicsTooLateReleasesNothing(t *testing.T) {
	for name, end := range map[string]func(){"panics": panics, "ends the goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
				held := heldElsewhere(t, w, of)
				p := w.NewClient()
				owner := rlock.WithOwner(w.Ctx, rlock.NewOwner())
				goOn, ended := make(chan struct{}), make(chan any, 1)
				go func() {
					defer func() { ended <- recover() }()
					_, _ = of(p.Client).Acquire(owner, rlock.WithProgress(func(int, int) { <-goOn; end() }))
				}()
				synctest.Wait()
				require.NoError(t, held.Release(w.Ctx))
				time.Sleep(2 * time.Second) // the call has the lock for one of them
				require.NoError(t, of(p.Client).Lock(owner))
				close(goOn)
				<-ended
				synctest.Wait()
				assert.Len(t, p.Held(), 1)
				assert.EqualValues(t, 1, p.Stats().Held)
				assert.Zero(t, p.Stats().Waiting)
				require.NoError(t, of(p.Client).Unlock(owner))
				require.Eventually(t, func() bool { return w.IsFree(of(p.Client)) }, time.Minute, time.Millisecond)
			})
		})
	}
}

// The client may be closed, or the lock lost, while a call that was granted the lock waits for its
// function. Then the call has acquired the lock, also if its caller has left or cannot be told: the
// Observer is told so, and the figures agree with it.
func TestALockMayEndWhileItsCallWaitsForTheFunction(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, w *testbed.World, p *rlock.Client){
		"closed": func(t *testing.T, _ *testbed.World, p *rlock.Client) { require.NoError(t, p.Close()) },
		"by force": func(t *testing.T, w *testbed.World, p *rlock.Client) {
			freed, err := p.NewLock(testbed.Key).ForceUnlock(w.Ctx)
			require.NoError(t, err)
			require.True(t, freed)
		},
	} {
		for _, then := range []string{"the function returns", "the function panics", "the caller has left"} {
			t.Run(fmt.Sprint(name, ", ", then), func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					held := heldElsewhere(t, w, waitersOf["plain"])
					var told struct{ acquired, gaveUp, ended atomic.Int64 }
					p := w.NewClient(func(c *rlock.Config) {
						c.Observer = &rlock.Observer{
							Acquired: func(context.Context, rlock.AcquiredInfo) { told.acquired.Add(1) },
							GaveUp:   func(context.Context, rlock.GaveUpInfo) { told.gaveUp.Add(1) },
							Released: func(context.Context, rlock.ReleasedInfo) { told.ended.Add(1) },
							Lost:     func(context.Context, rlock.LostInfo) { told.ended.Add(1) },
						}
					})
					goOn, ended := make(chan struct{}), make(chan any, 1)
					owner := rlock.WithOwner(w.Ctx, rlock.NewOwner())
					ctx, leave := context.WithCancel(owner)
					defer leave()
					var h *rlock.Hold
					var err error
					go func() {
						defer func() { ended <- recover() }()
						h, err = p.NewLock(testbed.Key).Acquire(ctx, rlock.WithProgress(func(int, int) {
							if <-goOn; then == "the function panics" {
								panics()
							}
						}))
					}()
					synctest.Wait()
					require.NoError(t, held.Release(w.Ctx))
					synctest.Wait()
					require.Len(t, p.Held(), 1)
					ends(t, w, p.Client)
					if then == "the caller has left" {
						leave()
					}
					time.Sleep(2 * time.Second) // the turn is over
					close(goOn)
					why := <-ended
					synctest.Wait()
					if then == "the function panics" {
						toldAll(t, why)
						assert.Nil(t, h)
					} else if assert.NoError(t, err) {
						assert.Error(t, context.Cause(h.Context()))
						assert.Error(t, h.Release(w.Ctx))
					}
					stats := p.Stats()
					assert.Zero(t, stats.Held)
					assert.Zero(t, stats.Waiting)
					assert.EqualValues(t, 1, stats.AcquiredByQueue)
					assert.EqualValues(t, 1, told.acquired.Load())
					assert.EqualValues(t, 1, told.ended.Load())
					assert.Zero(t, stats.Canceled+told.gaveUp.Load())
					if name == "by force" { // the owner has nothing left to unlock
						require.NoError(t, p.NewLock(testbed.Key).Do(owner, testbed.Nothing))
					}
				})
			})
		}
	}
}

// Queues that refuse: WithMaxWaiters.

// waitersOf are the locks for which all callers wait that have to.
var waitersOf = testbed.LocksOf("plain", "fenced", "fair", "write", "semaphore")

// bounded is a call that waits if fewer than n wait.
func bounded(ctx context.Context, l *rlock.Lock, n int) <-chan error {
	return testbed.Start(func() error {
		h, err := l.Acquire(ctx, rlock.WithMaxWaiters(n))
		if err != nil {
			return err
		}
		return h.Release(ctx)
	})
}

func TestAQueueThatIsFullRefuses(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient(), s.NewClient()
		for _, of := range waitersOf {
			held, err := of(here).Acquire(s.Ctx, rlock.WithMaxWaiters(-1))
			require.NoError(t, err, "it need not wait")

			_, err = of(there).Acquire(s.Ctx, rlock.WithMaxWaiters(0))
			require.ErrorIs(t, err, rlock.ErrTooManyWaiters)
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			assert.ErrorContains(t, err, fmt.Sprintf("lock %q", testbed.Key))
			assert.ErrorContains(t, err, "0 of 0")

			first := bounded(s.Ctx, of(there), 2)
			s.AwaitWaiters(1, testbed.Key)
			second := bounded(s.Ctx, of(here), 2)
			s.AwaitWaiters(2, testbed.Key)
			for _, c := range []*rlock.Client{here, there} {
				_, err = of(c).Acquire(s.Ctx, rlock.WithMaxWaiters(2))
				require.ErrorIs(t, err, rlock.ErrTooManyWaiters)
				assert.ErrorContains(t, err, "2 of 2")
				assert.ErrorContains(t, err, "held by")
			}
			s.AwaitWaiters(2, testbed.Key) // the refused calls have no place

			require.NoError(t, held.Release(s.Ctx))
			require.NoError(t, redistest.Await(t, first))
			require.NoError(t, redistest.Await(t, second))
			// A hand-off inside a process leaves the ticket of its caller to be given up.
			require.Eventually(t, func() bool { return s.IsFree(of(there)) }, testbed.Hang, time.Millisecond)
		}
	})
}
