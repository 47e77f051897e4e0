package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func isWanted(h Handle) bool {
	synctest.Wait()
	select {
	case <-h.Wanted():
		return true
	default:
		return false
	}
}

// wantsOf are the locks that a hold may have, and another owner may want.
var wantsOf = map[string]struct {
	kind   KindID
	reads  bool
	most   int
	fenced bool
}{
	"plain": {kind: PlainKind}, "fair": {kind: FairKind}, "fenced": {kind: FencedKind},
	"write": {kind: ReadWriteKind}, "read": {kind: ReadWriteKind, reads: true}, "permit": {kind: SemaphoreKind, most: 1},
}

// A hold is told that another owner waits, once, wherever that owner is: at once in this process,
// and where Redis notifies the client; else with a renewal.
func TestAHoldIsToldThatItIsWanted(t *testing.T) {
	for name, c := range wantsOf {
		for _, tracks := range []bool{false, true} {
			for _, here := range []bool{false, true} {
				t.Run(name+map[bool]string{true: ", tracking"}[tracks]+map[bool]string{true: ", here"}[here], func(t *testing.T) {
					bubbleOf(t, c.kind, func(t *testing.T, f *fake) {
						f.most = c.most
						client := f.join(func(c *Config) {
							if tracks {
								c.TrackedKeys = 1
							}
						})
						l := client.lock()
						if c.reads {
							reader := l.ForReaders()
							l = &reader
						}
						h := holds(t, l)
						assert.False(t, isWanted(h))
						time.Sleep(time.Minute)
						assert.False(t, isWanted(h))
						rival := f.join(nil).lock()
						if here {
							rival = client.lock()
						}
						o, waits := takes(t.Context(), rival)
						time.Sleep(10 * time.Millisecond)
						if !tracks && !here {
							time.Sleep(10 * time.Second) // a third of the lease
						}
						assert.True(t, isWanted(h))
						mirrors := f.count(core.Mirror)
						time.Sleep(9 * time.Second)
						assert.LessOrEqual(t, f.count(core.Mirror), mirrors+1, "it asks no more")
						require.NoError(t, h.Release(t.Context()))
						require.NoError(t, <-waits)
						assert.True(t, isWanted(h), "it does not open again")
						require.NoError(t, rival.Unlock(t.Context(), o))
						assert.Empty(t, client.shardOf(l.Name).wishes)
					})
				})
			}
		}
	}
}

// Where a hold follows another without a pause, the wishes of those that are over are forgotten.
func TestWishesDoNotGather(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		l := c.lock()
		h := holds(t, l)
		for range 3 {
			assert.False(t, isWanted(h))
			for _, wishes := range c.shardOf(l.Name).wishes {
				assert.Len(t, wishes, 1)
			}
			h.ReleaseLater()
			h = holds(t, l)
		}
		require.NoError(t, h.Release(t.Context()))
	})
}

// A wish ends with its hold: of the next hold of the process nobody is told, nor is more asked.
func TestAWishEndsWithItsHold(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		l := c.lock()
		h := holds(t, l)
		wanted := h.Wanted()
		outer := contract.NewOwner()
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, l.Take(t.Context(), request(outer)))
		_, waits := takes(t.Context(), f.join(nil).lock())
		time.Sleep(time.Minute)
		select {
		case <-wanted:
			t.Error("a hold that is over is wanted")
		default:
		}
		f.mu.Lock()
		for _, cmd := range f.sent {
			assert.False(t, cmd.Op == core.Mirror && cmd.Asks && cmd.Owner == core.OwnerID(outer.ID))
		}
		f.mu.Unlock()
		require.NoError(t, l.Unlock(t.Context(), outer))
		require.NoError(t, <-waits)
		assert.Empty(t, c.shardOf(l.Name).wishes)
		select {
		case <-h.Wanted():
			t.Error("a hold that is over is wanted")
		default:
		}
	})
}

// Of nested holds each is told that has asked, but for one that has ended.
func TestEachNestedHoldIsToldUnlessItHasEnded(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l, o := f.join(nil).lock(), contract.NewOwner()
		var nested [3]Handle
		var wanted [3]<-chan struct{}
		for i := range nested {
			var err error
			nested[i], err = l.Hold(t.Context(), t.Context(), request(o))
			require.NoError(t, err)
			wanted[i] = nested[i].Wanted()
		}
		require.NoError(t, nested[2].Release(t.Context()))
		_, waits := takes(t.Context(), f.join(nil).lock())
		time.Sleep(11 * time.Second)
		<-wanted[0]
		<-wanted[1]
		select {
		case <-wanted[2]:
			t.Error("the innermost hold was over")
		default:
		}
		require.NoError(t, nested[1].Release(t.Context()))
		require.NoError(t, nested[0].Release(t.Context()))
		require.NoError(t, <-waits)
	})
}

// A hold without a grace hears in one answer that another owner waits, and that its time is over.
func TestAHoldThatIsTakenOverAtOnceIsToldThatItIsWanted(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		h := holds(t, f.join(nil).lock())
		require.False(t, isWanted(h))
		req := request(contract.NewHandleOwner())
		req.Takeover = time.Nanosecond
		next, err := f.join(nil).lock().Hold(t.Context(), t.Context(), req)
		require.NoError(t, err)
		assert.ErrorIs(t, h.Release(t.Context()), contract.ErrTakenOver)
		assert.True(t, isWanted(h))
		require.NoError(t, next.Release(t.Context()))
	})
}
