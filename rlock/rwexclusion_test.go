package rlock_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

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
