package driver

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A lineUp is a line of callers. Each has the lock for two milliseconds.
type lineUp struct {
	order []string // protected by the lock
	wg    sync.WaitGroup
}

// join returns when another caller waits.
func (r *lineUp) join(t *testing.T, c *Client, who string) {
	l, o := c.lock(), terms.NewOwner()
	r.wg.Go(func() {
		if !assert.NoError(t, l.Take(t.Context(), request(o))) {
			return
		}
		r.order = append(r.order, who)
		time.Sleep(2 * time.Millisecond)
		assert.NoError(t, l.Unlock(t.Context(), o))
	})
	synctest.Wait()
}

func TestInsideAProcessTheLockIsHandedOffFirstInFirstOut(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		h := holds(t, c.lock())
		var r lineUp
		var want []string
		for i := range 50 {
			want = append(want, string(rune('A'+i)))
			r.join(t, c, want[i])
		}
		require.NoError(t, h.Release(t.Context()))
		r.wg.Wait()
		assert.Equal(t, want, r.order)
		assert.Equal(t, []core.Op{core.Acquire, core.Leave}, f.ops(core.Acquire, core.Leave), "one tenure")
		f.isClean()
	})
}

// No other client waits: the limits do not apply.
func TestWithoutOthersATenureGoesOnWithoutEnd(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(func(c *Config) { c.HandoffLimit, c.HandoffTime = 1, time.Millisecond })
		var r lineUp
		for range 1_000 {
			r.join(t, c, "")
		}
		r.wg.Wait()
		assert.Len(t, r.order, 1_000)
		assert.Equal(t, 1, f.count(core.Leave))
		f.isClean()
	})
}

// The lock is handed off once before the client knows of the other one (the mirror of a hand-off tells it), and then as
// the config says.
func TestOnceAnotherClientWaitsHandOffsHaveALimit(t *testing.T) {
	for name, c := range map[string]struct {
		limit  int
		time   time.Duration
		before int // hand-offs before the other client has the lock
	}{
		"none": {0, time.Hour, 1}, "one": {1, time.Hour, 2}, "four": {4, time.Hour, 5}, "for 10 ms": {1000, 10 * time.Millisecond, 6},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				here := f.join(func(config *Config) { config.HandoffLimit, config.HandoffTime = c.limit, c.time })
				there := f.join(nil)
				h := holds(t, here.lock())
				var r lineUp
				for range 10 {
					r.join(t, here, "here")
				}
				r.join(t, there, "there")
				require.NoError(t, h.Release(t.Context()))
				r.wg.Wait()
				assert.LessOrEqual(t, slices.Index(r.order, "there"), c.before, r.order)
				f.isClean()
			})
		})
	}
}

func TestOneAttemptDoesNotBarge(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		l := here.lock()
		me, got := takes(t.Context(), l)
		synctest.Wait()
		f.server.Holders = nil // without a message to the waiter
		sent := f.count(core.Acquire)
		try := Request{Owner: terms.NewOwner()}
		require.ErrorIs(t, l.Take(t.Context(), try), terms.ErrNotAcquired, "it must not pass a waiter of this process")
		assert.Equal(t, sent, f.count(core.Acquire), "no command")
		require.NoError(t, <-got)
		require.ErrorIs(t, l.Take(t.Context(), try), terms.ErrNotAcquired)
		require.NoError(t, l.Take(t.Context(), Request{Owner: me}), "the lock's owner may nest")
		require.NoError(t, l.Unlock(t.Context(), me))
		require.NoError(t, l.Unlock(t.Context(), me))
		_ = h.Release(t.Context())
	})
}
