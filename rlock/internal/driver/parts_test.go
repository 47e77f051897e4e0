package driver

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A tally counts the events of the levels that were told as the beginning of a hold, and of those told as nested.
type tally struct{ begun, ended, nested, unnested int }

func (n *tally) observer() *terms.Observer {
	count := func(begin, nest *int) terms.Hook {
		return func(_ context.Context, e terms.Event) {
			if e.Way == terms.ByNesting {
				*nest++
			} else {
				*begin++
			}
		}
	}
	return &terms.Observer{
		Acquired: count(&n.begun, &n.nested), Released: count(&n.ended, &n.unnested), Lost: count(&n.ended, &n.unnested),
		Missed: func(int) {}, Closed: func() {},
	}
}

// An owner takes the lock by itself and as a part of others, and gives the levels back in any order.
func TestTheEventsOfAnOwnerBalanceBesideItsPartsOfOtherLocks(t *testing.T) {
	for seed := range uint64(200) {
		bubble(t, func(t *testing.T, f *fake) {
			n, random := new(tally), rand.New(rand.NewPCG(seed, 0))
			c := f.join(func(c *Config) { c.Observer = n.observer() })
			l, o := c.lock(), terms.NewOwner()
			direct := 0
			var open []Handle
			for range 5 {
				req := request(o)
				if random.IntN(2) == 0 {
					req.Whole = &terms.Whole{Name: "whole"}
				} else {
					direct++
				}
				h, err := l.Hold(t.Context(), t.Context(), req)
				require.NoError(t, err)
				open = append(open, h)
				if random.IntN(2) == 0 {
					i := random.IntN(len(open))
					require.NoError(t, open[i].Release(t.Context()))
					open = append(open[:i], open[i+1:]...)
				}
				assert.Equal(t, int64(min(len(open), 1)), c.Counts().Held)
			}
			lost := seed%2 == 0 && len(open) > 0
			if lost {
				time.Sleep(time.Second)
				f.mu.Lock()
				f.server.Holders, f.server.Mode, f.server.Ends = nil, server.NoMode, 0
				f.mu.Unlock()
				time.Sleep(20 * time.Second)
				synctest.Wait()
			}
			for _, i := range random.Perm(len(open)) {
				if err := open[i].Release(t.Context()); !lost {
					require.NoError(t, err)
				}
				assert.LessOrEqual(t, c.Counts().Held, int64(1))
			}
			synctest.Wait()
			assert.Equal(t, direct, n.begun+n.nested, "each level that is no part")
			assert.Equal(t, n.begun, n.ended, "the holds that were told")
			if !lost {
				assert.Equal(t, n.nested, n.unnested, "the levels in them")
			}
			assert.Zero(t, c.Counts().Held)
		})
	}
}
