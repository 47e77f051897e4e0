package storms_test

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// Redisson: testConcurrency_SingleInstance, testConcurrency_MultiInstance, testConcurrencyLoop_MultiInstance. One client
// has many callers, another a few, and the others have one each.
func TestTheSectionsOfSeveralClientsNeverOverlap(t *testing.T) {
	testbed.EachExclusiveKind(t, func(t *testing.T, s *testbed.Subject) {
		r, sections := new(testbed.Record), 0
		for _, goroutines := range []int{10, 4, 1, 1, 1} {
			rounds := testbed.Rounds(12)
			r.Work(s.Site, s.NewLock(), goroutines, rounds)
			sections += goroutines * rounds
		}
		r.Check(t, sections)
	})
}

// Readers and writers of several clients, in all ways. No writer overlaps a reader or another writer.
func TestNoWriterOverlapsReadersOrWriters(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		var all sync.WaitGroup
		var readers, writers atomic.Int32 // inside
		read := func(context.Context) error {
			readers.Add(1)
			defer readers.Add(-1)
			assert.Zero(t, writers.Load(), "a writer overlaps a reader")
			time.Sleep(50 * time.Microsecond)
			assert.Zero(t, writers.Load(), "a writer overlaps a reader")
			return nil
		}
		write := func(context.Context) error {
			defer writers.Add(-1)
			assert.EqualValues(t, 1, writers.Add(1), "two writers overlap")
			assert.Zero(t, readers.Load(), "a reader overlaps a writer")
			return nil
		}
		for range 3 {
			l := s.NewClient(testbed.WithLease(5 * time.Second)).NewReadWriteLock(testbed.Key)
			for g := range 6 {
				all.Go(func() {
					ctx := rlock.WithOwner(s.Ctx, rlock.NewOwner())
					for round := range 25 {
						var err error
						switch (g + round) % 5 {
						case 0:
							err = l.Write().Do(ctx, write)
						case 1: // a downgrade
							err = l.Write().Lock(ctx)
							if err == nil {
								err = cmp.Or(write(ctx), l.Read().LockFor(ctx, time.Hour), l.Write().Unlock(ctx), read(ctx), l.Read().Unlock(ctx))
							}
						default:
							err = l.Read().Do(ctx, read)
						}
						assert.NoError(t, err)
					}
				})
			}
		}
		if server.Kind == redistest.KindStandalone { // connections and scripts are lost
			for range 5 {
				time.Sleep(20 * time.Millisecond)
				s.Admin("SCRIPT", "FLUSH")
				s.Admin("CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
		all.Wait()
	})
}
