package testbed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A Record finds out whether two critical sections ever overlapped, in two ways: by a counter
// that only the lock protects (lost additions, and the race detector), and by the times at
// which each section began and ended.
type Record struct {
	Workers sync.WaitGroup
	Counter int // protected by the lock under test

	Mu    sync.Mutex // protects following
	Spans []Span
}

type Span struct{ From, To time.Time }

// A way is one of the ways in which a caller runs a section under the lock.
type way func(ctx context.Context, lock Locker, section func()) error

var ways = []way{
	func(ctx context.Context, lock Locker, section func()) error {
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(_ context.Context, lock Locker, section func()) error {
		ctx := context.Background() // the acquire is not sent by a goroutine of its own
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(ctx context.Context, lock Locker, section func()) error { // nested
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		if err := lock.LockFor(ctx, time.Hour); err != nil {
			return errors.Join(err, lock.Unlock(ctx))
		}
		section()
		return errors.Join(lock.Unlock(ctx), lock.Unlock(ctx))
	},
	func(ctx context.Context, lock Locker, section func()) error {
		return lock.Do(ctx, func(context.Context) error {
			section()
			return nil
		})
	},
	func(ctx context.Context, lock Locker, section func()) error {
		hold, err := lock.Acquire(ctx, rlock.WithLease(time.Hour))
		if err != nil {
			return err
		}
		section()
		return hold.Release(ctx)
	},
	func(ctx context.Context, lock Locker, section func()) error {
		for {
			taken, err := Try(ctx, lock, time.Millisecond, 0)
			if err != nil {
				return err
			}
			if taken {
				section()
				return lock.Unlock(ctx)
			}
		}
	},
}

// Work runs a section in each goroutine, once a round. A holder that was granted a fair lock
// by the queue has a lease of two seconds at first, and may lose the lock if the process is
// suspended for as long.
func (r *Record) Work(s *Site, lock Locker, goroutines, rounds int) {
	for g := range goroutines {
		r.Workers.Go(func() {
			var spans []Span
			section := func() {
				from := time.Now()
				r.Counter++
				spans = append(spans, Span{From: from, To: time.Now()})
			}
			tried, ok := lock.(*Trial)
			fair := ok && tried.kind.Strict
			for len(spans) < rounds {
				err := ways[(g+len(spans))%len(ways)](s.Ctx, lock, section)
				if claim := fair && errors.Is(err, rlock.ErrLost); !claim && !assert.NoError(s.T, err) {
					break
				}
			}
			r.Mu.Lock()
			defer r.Mu.Unlock()
			r.Spans = append(r.Spans, spans...)
		})
	}
}

// Check waits for the work, which had that many sections in all, and asserts that no two of
// them overlapped.
func (r *Record) Check(t *testing.T, sections int) {
	t.Helper()
	r.Workers.Wait()
	require.Equal(t, sections, len(r.Spans), "sections")
	assert.Equal(t, sections, r.Counter, "additions were lost")
	slices.SortFunc(r.Spans, func(a, b Span) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To))
	})
	for i := 1; i < len(r.Spans); i++ {
		require.False(t, r.Spans[i].From.Before(r.Spans[i-1].To), "two sections overlap: %v and %v", r.Spans[i-1], r.Spans[i])
	}
}

// Rounds is n, or a sixth of it with -short or the race detector.
func Rounds(n int) int {
	if Fewer() || testing.Short() {
		return n / 6
	}
	return n
}
