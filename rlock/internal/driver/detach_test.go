package driver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// detaches returns a hold with a fixed lease, and the result of a Detach that waits for the answer to a mirror. The first
// one is held back, and each later one is lost.
func (f *fake) detaches(t *testing.T) (h client.Handle, landed <-chan struct{}, detached <-chan error) {
	c := f.join(nil)
	l := c.lock()
	h, err := l.Hold(t.Context(), t.Context(), client.Request{Owner: terms.NewHandleOwner(), Lease: 10 * time.Second})
	require.NoError(t, err)
	next := held
	f.fate = func(_ uint32, cmd *core.Command) (now fate) {
		if cmd.Op == core.Mirror {
			now, next = next, lost
		}
		return now
	}
	h.SetLease(20 * time.Second)
	result := make(chan error, 1)
	go func() { result <- h.Detach(t.Context()) }()
	synctest.Wait()
	one, _ := c.enterIfAny(l.Name, 0)
	landed = one.shard.mirrorWaits[one]
	one.shard.exit(one)
	require.NotNil(t, landed, "it waits for no mirror")
	return h, landed, result
}

func TestADetachWaitsUntilTheLeaseIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		h, landed, detached := f.detaches(t)
		f.deliver(-1)
		<-landed
		require.NoError(t, <-detached)
		require.ErrorIs(t, h.Err(), terms.ErrNotHeld)
		assert.Zero(t, f.count(core.Leave))
		time.Sleep(time.Minute)
		f.isClean()
	})
}

// No mirror of a lock that is gone is answered any more.
func TestTheWaitForAMirrorEndsWithTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		h, landed, detached := f.detaches(t)
		<-h.Context().Done()
		require.ErrorIs(t, <-detached, terms.ErrLost)
		<-landed
		time.Sleep(time.Minute)
		f.isClean()
	})
}
