package storms_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Redisson: testConcurrency_SingleInstance.
func TestTheSectionsOfOneClientNeverOverlap(t *testing.T) {
	testbed.EachExclusiveKind(t, func(t *testing.T, s *testbed.Subject) {
		r := new(testbed.Record)
		r.Work(s.Site, s.NewLock(), 16, testbed.Rounds(25))
		r.Check(t, 16*testbed.Rounds(25))
	})
}

// Redisson: testConcurrency_MultiInstance.
func TestTheSectionsOfSeveralClientsNeverOverlap(t *testing.T) {
	testbed.EachExclusiveKind(t, func(t *testing.T, s *testbed.Subject) {
		r := new(testbed.Record)
		for range 3 {
			r.Work(s.Site, s.NewLock(), 4, testbed.Rounds(15))
		}
		r.Check(t, 3*4*testbed.Rounds(15))
	})
}

// Redisson: testConcurrencyLoop_MultiInstance.
func TestTheSectionsOfClientsWithOneGoroutineEachNeverOverlap(t *testing.T) {
	testbed.EachExclusiveKind(t, func(t *testing.T, s *testbed.Subject) {
		r := new(testbed.Record)
		for range 8 {
			r.Work(s.Site, s.NewLock(), 1, testbed.Rounds(12))
		}
		r.Check(t, 8*testbed.Rounds(12))
	})
}

// readsAndWrites has goroutines of several clients read and write at random, in all ways, and
// asserts that no writer overlaps a reader or another writer.
func readsAndWrites(s *testbed.Site, clients, goroutines, rounds int, disturb func()) {
	s.T.Helper()
	var mu sync.Mutex
	var reads, writes []testbed.Span
	counter := 0 // protected by the lock
	var all sync.WaitGroup
	for range clients {
		l := s.NewClient(testbed.WithLease(5 * time.Second)).NewReadWriteLock(testbed.Key)
		for g := range goroutines {
			all.Go(func() {
				ctx := rlock.WithOwner(s.Ctx, rlock.NewOwner())
				read := func(context.Context) error {
					from, before := time.Now(), counter
					time.Sleep(50 * time.Microsecond)
					assert.Equal(s.T, before, counter, "a writer overlaps a reader")
					mu.Lock()
					defer mu.Unlock()
					reads = append(reads, testbed.Span{From: from, To: time.Now()})
					return nil
				}
				write := func(context.Context) error {
					from := time.Now()
					counter++
					mu.Lock()
					defer mu.Unlock()
					writes = append(writes, testbed.Span{From: from, To: time.Now()})
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
					if !assert.NoError(s.T, err) {
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
	assert.Len(s.T, writes, counter, "additions were lost")
	inside := append(slices.Clone(writes), reads...)
	for _, w := range writes {
		for _, other := range inside {
			if other != w {
				require.False(s.T, w.From.Before(other.To) && other.From.Before(w.To), "%v overlaps %v", w, other)
			}
		}
	}
	s.T.Logf("%d reads, %d writes", len(reads), len(writes))
}

func TestNoWriterOverlapsReadersOrWriters(t *testing.T) {
	redistest.Slow(t)
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		readsAndWrites(testbed.At(t, server), 3, 6, 25, nil)
	})
}

func TestNoWriterOverlapsReadersOrWritersWhileConnectionsAndScriptsAreLost(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	readsAndWrites(s, 3, 6, 40, func() {
		for range 10 {
			time.Sleep(20 * time.Millisecond)
			s.Admin("SCRIPT", "FLUSH")
			s.Admin("CLIENT", "KILL", "TYPE", "pubsub")
		}
	})
}
