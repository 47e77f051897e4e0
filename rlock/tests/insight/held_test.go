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
