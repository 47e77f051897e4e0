package insight_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func withSites(c *rlock.Config) { c.RecordSites = true }

func TestHeldListsTheHoldsOfTheClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other := w.NewClient(), w.NewClient()
		owners := []rlock.Owner{rlock.NewOwner(), rlock.NewOwner()}
		first, second := rlock.WithOwner(w.Ctx, owners[0]), rlock.WithOwner(w.Ctx, owners[1])
		require.NoError(t, other.NewLock("another's").Lock(first))
		assert.Empty(t, p.Held())
		began := time.Now()

		require.NoError(t, p.NewLock(testbed.Key).Lock(first))
		require.NoError(t, p.NewLock(testbed.Key).Lock(first))
		time.Sleep(time.Second)
		pair := p.NewReadWriteLock("pair")
		require.NoError(t, pair.Write().LockFor(second, 5*time.Second))
		require.NoError(t, pair.Read().LockFor(second, 5*time.Second))
		time.Sleep(time.Second)
		shared := p.NewReadWriteLock("shared").Read()
		require.NoError(t, shared.Lock(first))
		time.Sleep(time.Second)
		require.NoError(t, shared.Lock(second))
		time.Sleep(time.Second)
		whole := rlock.NewMultiLock(p.NewFairLock("a"), p.NewSemaphore("b", 3))
		require.NoError(t, whole.Lock(first))
		testbed.Take(t, w.Ctx, p.NewSemaphore("c", 5), rlock.WithPermits(4))

		held := p.Held()
		type line struct {
			name    string
			kind    rlock.Kind
			owner   rlock.Owner
			since   time.Duration
			depth   int
			permits int
			partOf  string
		}
		var lines []line
		for _, h := range held {
			lines = append(lines, line{h.Name, h.Kind, rlock.Owner(h.Owner), h.Since.Sub(began), h.Depth, h.Permits, h.PartOf})
			assert.Zero(t, h.Site)
			assert.Greater(t, time.Until(h.ValidUntil), 900*time.Millisecond)
		}
		assert.Equal(t, []line{
			{testbed.Key, rlock.KindPlain, owners[0], 0, 2, 0, ""},
			{"pair", rlock.KindWrite, owners[1], time.Second, 2, 0, ""},
			{"shared", rlock.KindRead, owners[0], 2 * time.Second, 1, 0, ""},
			{"shared", rlock.KindRead, owners[1], 3 * time.Second, 1, 0, ""},
			{"a", rlock.KindFair, owners[0], 4 * time.Second, 1, 0, "a,b"},
			{"b", rlock.KindSemaphore, owners[0], 4 * time.Second, 1, 1, "a,b"},
			{"c", rlock.KindSemaphore, rlock.Owner(held[len(held)-1].Owner), 4 * time.Second, 1, 4, ""},
		}, lines)

		time.Sleep(2 * time.Second)
		assert.Len(t, p.Held(), 6, "the fixed lease has ended")
		require.NoError(t, p.Close())
		assert.Empty(t, p.Held())
	})
}

// takenHere acquires the lock in a function with a name.
func takenHere(ctx context.Context, l *rlock.Lock) (*rlock.Hold, error) { return l.Acquire(ctx) }

func TestHeldShowsWhereALockWasTaken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		several := []*rlock.Lock{
			p.NewLock("plain"), p.NewReadWriteLock("pair").Read(),
			rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.NewRedLock([]*rlock.Client{p.Client}, "red"),
		}
		for _, l := range several {
			require.NoError(t, testbed.ErrorOf(takenHere(w.Ctx, l)), l.Name())
		}
		held := p.Held()
		require.Len(t, held, 5)
		for _, h := range held {
			assert.True(t, strings.HasSuffix(h.Site.Function, ".takenHere"), "%s: %s", h.Name, h.Site)
			assert.Regexp(t, `held_test\.go:\d+ .*takenHere$`, h.Site.String())
		}

		time.Sleep(time.Second)
		me := w.Caller()
		require.NoError(t, p.NewLock("done").Do(me, func(context.Context) error {
			held := p.Held()
			assert.Contains(t, held[len(held)-1].Site.Function, "TestHeldShowsWhereALockWasTaken")
			return nil
		}))
	})
}
