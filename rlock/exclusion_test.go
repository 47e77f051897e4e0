package rlock_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// rounds is n, or a sixth of it with -short or the race detector.
func rounds(n int) int {
	if fewer() || testing.Short() {
		return n / 6
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

// readsAndWrites has goroutines of several clients read and write at random, in all ways, and
// asserts that no writer overlaps a reader or another writer.
func readsAndWrites(s *site, clients, goroutines, rounds int, disturb func()) {
	s.t.Helper()
	var mu sync.Mutex
	var reads, writes []span
	counter := 0 // protected by the lock
	var all sync.WaitGroup
	for range clients {
		l := s.client(withLease(5 * time.Second)).NewReadWriteLock(key)
		for g := range goroutines {
			all.Go(func() {
				ctx := rlock.WithOwner(s.ctx, rlock.NewOwner())
				read := func(context.Context) error {
					from, before := time.Now(), counter
					time.Sleep(50 * time.Microsecond)
					assert.Equal(s.t, before, counter, "a writer overlaps a reader")
					mu.Lock()
					defer mu.Unlock()
					reads = append(reads, span{from, time.Now()})
					return nil
				}
				write := func(context.Context) error {
					from := time.Now()
					counter++
					mu.Lock()
					defer mu.Unlock()
					writes = append(writes, span{from, time.Now()})
					return nil
				}
				for round := range rounds {
					var err error
					switch (g + round) % 5 {
					case 0:
						err = l.Write().Do(ctx, write)
					case 1:
						err = l.Write().Do(ctx, func(ctx context.Context) error { // and reads, too
							return cmp.Or(write(ctx), l.Read().Do(ctx, read))
						})
					case 2: // a downgrade
						err = l.Write().Lock(ctx)
						if err == nil {
							err = cmp.Or(write(ctx), l.Read().LockFor(ctx, time.Hour), l.Write().Unlock(ctx), read(ctx), l.Read().Unlock(ctx))
						}
					default:
						err = l.Read().Do(ctx, read)
					}
					if !assert.NoError(s.t, err) {
						return
					}
				}
			})
		}
	}
	if disturb != nil {
		disturb()
	}
	all.Wait()
	assert.Len(s.t, writes, counter, "additions were lost")
	inside := append(slices.Clone(writes), reads...)
	for _, w := range writes {
		for _, other := range inside {
			if other != w {
				require.False(s.t, w.from.Before(other.to) && other.from.Before(w.to), "%v overlaps %v", w, other)
			}
		}
	}
	s.t.Logf("%d reads, %d writes", len(reads), len(writes))
}

func TestNoWriterOverlapsReadersOrWriters(t *testing.T) {
	redistest.Slow(t)
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		readsAndWrites(at(t, server), 3, 6, 25, nil)
	})
}

func TestNoWriterOverlapsReadersOrWritersWhileConnectionsAndScriptsAreLost(t *testing.T) {
	s := at(t, redistest.Standalone(t))
	readsAndWrites(s, 3, 6, 40, func() {
		for range 10 {
			time.Sleep(20 * time.Millisecond)
			s.admin("SCRIPT", "FLUSH")
			s.admin("CLIENT", "KILL", "TYPE", "pubsub")
		}
	})
}
