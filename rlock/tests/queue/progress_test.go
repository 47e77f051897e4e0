package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Callers that are told where they stand, and queues that refuse. The stories of progress.txt have
// what one caller is told, and functions that block, panic or end their goroutine.

// waitersOf are the locks for which all callers wait that have to.
var waitersOf = testbed.LocksOf("plain", "fenced", "fair", "write", "semaphore")

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
// to Redis, whether they share one or have a bound, and so one each.
func TestCallersThatComeAtOnceHaveEachPlaceOnce(t *testing.T) {
	for _, shared := range []bool{false, true} {
		testbed.EachBubble(t, waitersOf, func(t *testing.T, w *testbed.World, of func(*rlock.Client) *rlock.Lock) {
			held, p := testbed.Take(t, w.Ctx, of(w.NewClient().Client)), w.NewClient()
			const n = 8
			var last [n]atomic.Value
			var results []<-chan error
			for i := range last {
				options := []rlock.AcquireOption{rlock.WithProgress(func(place, waiting int) { last[i].Store(fmt.Sprint(place, " of ", waiting)) })}
				if !shared {
					options = append(options, rlock.WithMaxWaiters(2*n))
				}
				results = append(results, testbed.Start(func() error { return of(p.Client).Do(w.Caller(), testbed.Nothing, options...) }))
			}
			time.Sleep(5 * time.Second)
			var told, want []any
			for i := range last {
				told, want = append(told, last[i].Load()), append(want, fmt.Sprint(i+1, " of ", n))
			}
			assert.ElementsMatch(t, want, told)
			require.NoError(t, held.Release(w.Ctx))
			testbed.Succeed(t, results...)
		})
	}
}

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
