package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
)

// One ticket and one subscription stand for all waiters of a client.
func TestManyWaitersShareOneSubscription(t *testing.T) {
	bubbleOf(t, client.PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		var r row
		for range 20 {
			r.join(t, here, "")
		}
		subs := here.wire.(*fakeWire).subs
		assert.Len(t, subs[key], 1)
		assert.Empty(t, there.wire.(*fakeWire).subs[key], "a client without waiters listens to nothing")
		looks := f.count(core.Look)
		time.Sleep(4*time.Second + 100*time.Millisecond)
		assert.Equal(t, 2, f.count(core.Look)-looks, "one ticket is looked for every two seconds")
		require.NoError(t, h.Release(t.Context()))
		r.wg.Wait()
		assert.Equal(t, 2, f.count(core.Look)-looks, "one waiter is granted the lock for all")
		f.isClean()
	})
}

// Only the release of an acquire whose caller left tells whether that was executed. (A client once discounted such a tenure
// twice.)
func TestAnAcquireWhoseCallerLeftInFlightIsUndoneOnce(t *testing.T) {
	for _, fate := range []fate{held, late} {
		bubble(t, func(t *testing.T, f *fake) {
			here, there := f.join(nil), f.join(nil)
			h := holds(t, there.lock())
			for range 20 {
				f.onOp(core.Acquire, fate)
				ctx, leave := context.WithCancel(t.Context())
				_, result := takes(ctx, here.lock())
				synctest.Wait()
				leaves := f.count(core.Leave)
				leave()
				require.ErrorIs(t, <-result, context.Canceled)
				f.deliver(-1)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, f.server.Queue)
				require.Equal(t, leaves+1, f.count(core.Leave))
			}
			require.NoError(t, h.Release(t.Context()))
			f.isClean()
		})
	}
}
