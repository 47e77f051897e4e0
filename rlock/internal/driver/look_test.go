package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/diag"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// More calls than are read while the mutex is held once, some of which go while they are read.
func TestALookReadsAllThatStaysInPieces(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)

		held := c.lock()
		o, got := takes(t.Context(), held)
		require.NoError(t, <-got)
		const calls = 2*atOnce + 100
		first, leave := context.WithCancel(t.Context())
		rest, end := context.WithCancel(t.Context())
		var results []<-chan error
		stay := make(map[terms.Owner]bool)
		for i := range calls {
			ctx := first
			if i >= 50 {
				ctx = rest
			}
			if i%10 == 0 {
				time.Sleep(time.Millisecond) // the others begin at the same time
			}
			w, result := takes(ctx, held)
			stay[w] = i >= 50
			results = append(results, result)
		}
		synctest.Wait()
		assert.Len(t, diag.Uses(c, true), 1+calls)
		assert.Len(t, diag.Uses(c, false), 1)

		pieces, seen := 0, make(map[terms.Owner]int)
		c.Look(terms.Look{Holds: true, Waits: true}, func(v *terms.View) {
			assert.LessOrEqual(t, len(v.Waits), atOnce)
			assert.Equal(t, 1, held.Depth(o), "no mutex is held")
			for _, w := range v.Waits {
				seen[w.Owner]++
			}
			if len(v.Waits) > 0 {
				if pieces++; pieces == 1 {
					leave()
					synctest.Wait()
				}
			}
		})
		assert.Equal(t, 3, pieces)
		for w, stays := range stay {
			if stays {
				assert.Equal(t, 1, seen[w])
			}
		}
		end()
		for _, result := range results {
			require.Error(t, <-result)
		}
		require.NoError(t, held.Unlock(t.Context(), o))
	})
}

func TestALookReadsTheLevelsOfReaders(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		readers := c.lock().ForReaders()
		const many = atOnce + 10
		owners := make([]terms.Owner, many)
		for i := range owners {
			owners[i] = terms.NewOwner()
			req := request(owners[i])
			if i%2 == 0 {
				req.Lease = time.Minute
			}
			require.NoError(t, readers.Take(t.Context(), req))
			require.NoError(t, readers.Take(t.Context(), req))
		}
		uses := diag.Uses(c, false)
		require.Len(t, uses, many)
		for i, u := range uses {
			assert.Equal(t, owners[i].ID, u.Owner)
			assert.Equal(t, terms.KindRead, u.Kind)
			assert.Equal(t, 2, u.Depth)
			assert.False(t, u.ValidUntil.IsZero())
		}
		for _, o := range owners {
			require.NoError(t, readers.Unlock(t.Context(), o))
			require.NoError(t, readers.Unlock(t.Context(), o))
		}
		assert.Empty(t, diag.Uses(c, true))
	})
}

// Each owner of a permit has a lock of its own, and a call that waits for it.
func TestALookReadsTheCallsOfEachLock(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 1
		c := f.join(nil)
		h := holds(t, c.lock())
		for range 3 {
			o, got := takes(t.Context(), c.lock())
			synctest.Wait()
			assert.Len(t, diag.Uses(c, true), 2)
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, <-got)
			require.NoError(t, c.lock().Unlock(t.Context(), o))
			h = holds(t, c.lock())
		}
	})
}
