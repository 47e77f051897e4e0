package rlock_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// A record finds out whether two critical sections ever overlapped, in two ways: by a counter
// that only the lock protects (lost additions, and the race detector), and by the times at
// which each section began and ended.
type record struct {
	workers sync.WaitGroup
	counter int // protected by the lock under test

	mu    sync.Mutex // protects following
	spans []span
}

type span struct{ from, to time.Time }

// A way is one of the ways in which a caller runs a section under the lock.
type way func(ctx context.Context, lock locker, section func()) error

var ways = []way{
	func(ctx context.Context, lock locker, section func()) error {
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(_ context.Context, lock locker, section func()) error {
		ctx := context.Background() // the acquire is not sent by a goroutine of its own
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		section()
		return lock.Unlock(ctx)
	},
	func(ctx context.Context, lock locker, section func()) error { // nested
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		if err := lock.LockFor(ctx, time.Hour); err != nil {
			return errors.Join(err, lock.Unlock(ctx))
		}
		section()
		return errors.Join(lock.Unlock(ctx), lock.Unlock(ctx))
	},
	func(ctx context.Context, lock locker, section func()) error {
		return lock.Do(ctx, func(context.Context) error {
			section()
			return nil
		})
	},
	func(ctx context.Context, lock locker, section func()) error {
		hold, err := lock.Acquire(ctx, rlock.WithLease(time.Hour))
		if err != nil {
			return err
		}
		section()
		return hold.Release(ctx)
	},
	func(ctx context.Context, lock locker, section func()) error {
		for {
			taken, err := try(ctx, lock, time.Millisecond, 0)
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

// work runs a section in each goroutine, once a round. A holder that was granted a fair lock
// by the queue has a lease of two seconds at first, and may lose the lock if the process is
// suspended for as long.
func (r *record) work(s *site, lock locker, goroutines, rounds int) {
	for g := range goroutines {
		r.workers.Go(func() {
			var spans []span
			section := func() {
				from := time.Now()
				r.counter++
				spans = append(spans, span{from, time.Now()})
			}
			tried, ok := lock.(*trial)
			fair := ok && tried.kind.strict
			for len(spans) < rounds {
				err := ways[(g+len(spans))%len(ways)](s.ctx, lock, section)
				if claim := fair && errors.Is(err, rlock.ErrLost); !claim && !assert.NoError(s.t, err) {
					break
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.spans = append(r.spans, spans...)
		})
	}
}

// check waits for the work, which had that many sections in all, and asserts that no two of
// them overlapped.
func (r *record) check(t *testing.T, sections int) {
	t.Helper()
	r.workers.Wait()
	require.Equal(t, sections, len(r.spans), "sections")
	assert.Equal(t, sections, r.counter, "additions were lost")
	slices.SortFunc(r.spans, func(a, b span) int {
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to))
	})
	for i := 1; i < len(r.spans); i++ {
		require.False(t, r.spans[i].from.Before(r.spans[i-1].to), "two sections overlap: %v and %v", r.spans[i-1], r.spans[i])
	}
}

// rounds is n, or a third of it with -short, and a sixth if the race detector is on as well.
func rounds(n int) int {
	if fewer() {
		return n / 6
	}
	if testing.Short() {
		return n / 3
	}
	return n
}

// Redisson: testConcurrency_SingleInstance.
func TestTheSectionsOfOneClientNeverOverlap(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		r := new(record)
		r.work(s.site, s.lock(), 16, rounds(25))
		r.check(t, 16*rounds(25))
	})
}

// Redisson: testConcurrency_MultiInstance.
func TestTheSectionsOfSeveralClientsNeverOverlap(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		r := new(record)
		for range 3 {
			r.work(s.site, s.lock(), 4, rounds(15))
		}
		r.check(t, 3*4*rounds(15))
	})
}

// Redisson: testConcurrencyLoop_MultiInstance.
func TestTheSectionsOfClientsWithOneGoroutineEachNeverOverlap(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		r := new(record)
		for range 8 {
			r.work(s.site, s.lock(), 1, rounds(12))
		}
		r.check(t, 8*rounds(12))
	})
}
