package redisson_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// section has a permit for 5 ms.
func section(ctx context.Context, c *redisson.Client, kind string) error {
	if kind == "a semaphore" {
		s := c.Semaphore("s")
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
		return s.Release(context.WithoutCancel(ctx), 1)
	}
	permit, err := c.PermitSemaphore("s").Acquire(ctx, time.Minute)
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond)
	return permit.Release(ctx)
}

// sections is how many sections a client has until then, by so many goroutines.
func sections(ctx context.Context, c *redisson.Client, kind string, goroutines int, until time.Time) <-chan int {
	counts := make(chan int)
	for range goroutines {
		go func() {
			n := 0
			for time.Now().Before(until) && section(ctx, c, kind) == nil {
				n++
			}
			counts <- n
		}()
	}
	all := make(chan int, 1)
	go func() {
		sum := 0
		for range goroutines {
			sum += <-counts
		}
		all <- sum
	}()
	return all
}

// A process that is nearer to Redis than another one is always sooner. With one permit it leaves
// the other its turn.
func TestAPermitIsNotTakenAgainAtOnceWhileOthersWait(t *testing.T) {
	for _, kind := range []string{"a semaphore", "permits with leases"} {
		for name, goroutines := range map[string]int{"one": 1, "eight": 8} {
			t.Run(kind+", "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *testbed.World) {
					near, far := w.NewClient(), w.NewClient()
					far.Net.SetRoundTrip(4 * time.Millisecond)
					here, there := redisson.New(near.Client), redisson.New(far.Client)
					require.NoError(t, here.Semaphore("s").Release(w.Ctx, 1))
					until := time.Now().Add(2 * time.Second)
					ours, theirs := sections(w.Ctx, here, kind, goroutines, until), sections(w.Ctx, there, kind, goroutines, until)
					n, m := <-ours, <-theirs
					assert.Greater(t, m, n/2, "the far one")
					assert.Greater(t, n, m/2, "the near one")
				})
			})
		}
	}
}

// A client that listens, and does not wait, costs a part of the time.
func TestATurnInVainIsRare(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		here, there := redisson.New(w.NewClient().Client), redisson.New(w.NewClient().Client)
		require.False(t, must(there.Semaphore("s").TryAcquire(w.Ctx, 1, time.Millisecond)))
		require.NoError(t, here.Semaphore("s").Release(w.Ctx, 1))
		n := <-sections(w.Ctx, here, "a semaphore", 1, time.Now().Add(2*time.Second))
		assert.Greater(t, n, 400*8/10)
	})
}

// A caller that leaves the others their turn when its client is closed returns at once.
func TestAClientThatIsClosedInATurnOfTheOthers(t *testing.T) {
	for after := range 10 {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			near, far := w.NewClient(), w.NewClient()
			far.Net.SetRoundTrip(4 * time.Millisecond)
			here, there := redisson.New(near.Client), redisson.New(far.Client)
			require.NoError(t, here.Semaphore("s").Release(w.Ctx, 1))
			until := time.Now().Add(150 * time.Millisecond)
			ctx, cancel := context.WithDeadline(w.Ctx, until) // a permit may be lost with the client
			defer cancel()
			ours, theirs := sections(w.Ctx, here, "a semaphore", 2, until), sections(ctx, there, "a semaphore", 1, until)
			time.Sleep(time.Duration(60+3*after) * time.Millisecond)
			require.NoError(t, near.Close())
			closed := time.Now()
			<-ours
			assert.LessOrEqual(t, time.Since(closed), 5*time.Millisecond, "after %d ms", 60+3*after)
			<-theirs
		})
	}
}
