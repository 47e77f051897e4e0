package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Callers are told where they stand. The stories of progress.txt have what one caller is told, and
// functions that block, panic or end their goroutine; the stories of waits.txt have queues that
// refuse.

// waitersOf are the kinds whose callers never join a holder: read locks are left out.
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
// to Redis, whether the callers share a ticket or have a bound, and so a ticket each.
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
