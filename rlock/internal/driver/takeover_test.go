package driver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// takesOver begins a call that takes the lock over.
func takesOver(ctx context.Context, l *NamedLock, grace time.Duration) (*Handle, <-chan error) {
	h := new(Handle)
	result := make(chan error, 1)
	go func() {
		req := request(contract.NewHandleOwner())
		req.Takeover = grace
		got, err := l.Hold(ctx, ctx, req)
		*h = got
		result <- err
	}()
	return h, result
}

// each runs a test for each kind that a hold may be of; it has the lock of the holder and that of
// the rival in a client.
func eachWanted(t *testing.T, run func(t *testing.T, f *fake, lock func(c *Client) (held, rival *NamedLock))) {
	for name, c := range wantsOf {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, c.kind, func(t *testing.T, f *fake) {
				f.most = c.most
				run(t, f, func(client *Client) (held, rival *NamedLock) {
					held, rival = client.lock(), client.lock()
					if c.reads {
						reader := held.ForReaders()
						held = &reader
					}
					return held, rival
				})
			})
		})
	}
}

// A holder has its grace. Then its hold ends by its own clock, with a cause of its own, and the lock
// is granted to the call that takes it over, before those that wait.
func TestATakeoverEndsTheHoldAfterItsGrace(t *testing.T) {
	eachWanted(t, func(t *testing.T, f *fake, lock func(c *Client) (held, rival *NamedLock)) {
		held, _ := lock(f.join(nil))
		_, rival := lock(f.join(nil))
		h := holds(t, held)
		_, waits := takes(t.Context(), f.join(nil).lock())
		time.Sleep(time.Minute)
		began := time.Now()
		wanted := h.Wanted()
		next, result := takesOver(t.Context(), rival, 30*time.Second)
		<-wanted
		time.Sleep(29 * time.Second)
		require.NoError(t, h.Err(), "it has its grace")
		<-h.Context().Done()
		assert.InDelta(t, 30*time.Second, time.Since(began), float64(100*time.Millisecond))
		require.ErrorIs(t, context.Cause(h.Context()), contract.ErrTakenOver)
		require.ErrorIs(t, context.Cause(h.Context()), contract.ErrLost)
		require.NoError(t, <-result)
		assert.InDelta(t, 30*time.Second, time.Since(began), float64(100*time.Millisecond))
		time.Sleep(time.Minute)
		select {
		case <-waits:
			t.Fatal("a call that waited has the lock")
		default:
		}
		require.True(t, Valid(*next))
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrTakenOver)
		require.NoError(t, (*next).Release(t.Context()))
		require.NoError(t, <-waits)
	})
}

// A holder that gives way before has released the lock, which the call has then.
func TestAHolderMayGiveWayBeforeItsGraceIsOver(t *testing.T) {
	eachWanted(t, func(t *testing.T, f *fake, lock func(c *Client) (held, rival *NamedLock)) {
		here := f.join(nil)
		held, _ := lock(here)
		_, rival := lock(f.join(nil))
		h := holds(t, held)
		_, beside := takes(t.Context(), here.lock())
		next, result := takesOver(t.Context(), rival, 30*time.Second)
		<-h.Wanted()
		time.Sleep(time.Second)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-result, "it is not handed off to a caller beside the holder")
		time.Sleep(time.Minute)
		require.True(t, Valid(*next))
		require.NoError(t, (*next).Release(t.Context()))
		require.NoError(t, <-beside)
	})
}

// A holder whose client does not answer loses the lock by force, a claim after its grace.
func TestASilentHolderLosesTheLockByForce(t *testing.T) {
	eachWanted(t, func(t *testing.T, f *fake, lock func(c *Client) (held, rival *NamedLock)) {
		silent := f.join(nil)
		held, _ := lock(silent)
		_, rival := lock(f.join(nil))
		h := holds(t, held)
		f.mu.Lock()
		w := f.clients[0]
		w.number += 50 // no message reaches it
		f.mu.Unlock()
		_, waits := takes(t.Context(), f.join(nil).lock())
		began := time.Now()
		next, result := takesOver(t.Context(), rival, 10*time.Second)
		require.NoError(t, <-result)
		assert.InDelta(t, 12*time.Second, time.Since(began), float64(100*time.Millisecond))
		select {
		case <-waits:
			t.Fatal("a call that waited has the lock")
		default:
		}
		f.mu.Lock()
		w.number -= 50
		f.mu.Unlock()
		<-h.Context().Done()
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrLost)
		require.True(t, Valid(*next))
		require.NoError(t, (*next).Release(t.Context()))
		require.NoError(t, <-waits)
	})
}

// A call that leaves lets the holder go on, and two are served in their order.
func TestATakeoverMayEndAndAnotherBegin(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		h := holds(t, f.join(nil).lock())
		ctx, cancel := context.WithCancel(t.Context())
		_, left := takesOver(ctx, f.join(nil).lock(), 10*time.Second)
		<-h.Wanted()
		time.Sleep(5 * time.Second)
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		time.Sleep(time.Minute)
		require.True(t, Valid(h), "it is not taken over any more")
		first, one := takesOver(t.Context(), f.join(nil).lock(), 20*time.Second)
		time.Sleep(time.Second)
		second, other := takesOver(t.Context(), f.join(nil).lock(), 5*time.Second)
		began := time.Now()
		<-h.Context().Done()
		require.NoError(t, <-one)
		assert.InDelta(t, 5*time.Second, time.Since(began), float64(100*time.Millisecond), "the shortest grace counts")
		<-(*first).Context().Done()
		require.ErrorIs(t, context.Cause((*first).Context()), contract.ErrTakenOver)
		require.NoError(t, <-other)
		require.NoError(t, (*second).Release(t.Context()))
	})
}

// A message that no ticket stands behind ends no hold: it costs a mirror.
func TestAForgedTakeoverEndsNoHold(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		h := holds(t, c.lock())
		one := f.server.Holders[0]
		text := c.textOf(one.ID, one.Owner, 0)
		for range 10 {
			c.hearClientMessage("t " + string(text) + " 0 " + string(text) + " " + key)
			time.Sleep(time.Second)
		}
		require.True(t, Valid(h))
		assert.Equal(t, 10, f.count(core.Mirror))
		for _, message := range []string{"t " + string(text), "t " + string(text) + " 5 " + key, "t " + string(text) + " x " + string(text) + " " + key, "t " + string(text) + " -1 " + string(text) + " " + key} {
			c.hearClientMessage(message)
		}
		time.Sleep(time.Second)
		assert.Equal(t, 10, f.count(core.Mirror))
		require.NoError(t, h.Release(t.Context()))
	})
}

// Permits are taken over from as many holders as have those that are missing.
func TestATakeoverTakesThePermitsThatAreMissing(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 5
		var all []Handle
		for range 4 {
			all = append(all, holds(t, f.join(nil).lock()))
		}
		next, result := make(chan Handle, 1), make(chan error, 1)
		go func() {
			req := request(contract.NewHandleOwner())
			req.Takeover, req.More = 10*time.Second, 2
			h, err := f.join(nil).lock().Hold(t.Context(), t.Context(), req)
			next <- h
			result <- err
		}()
		require.NoError(t, <-result)
		lost := 0
		for _, h := range all {
			if err := h.Err(); err != nil {
				assert.ErrorIs(t, err, contract.ErrTakenOver)
				lost++
			}
		}
		assert.Equal(t, 2, lost, "one of five was free, and three are asked for")
		require.NoError(t, (<-next).Release(t.Context()))
		for _, h := range all {
			if err := h.Release(t.Context()); !errors.Is(err, contract.ErrTakenOver) {
				require.NoError(t, err)
			}
		}
	})
}

// A reader takes no lock over.
func TestAReaderTakesNoLockOver(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		reads := f.join(nil).lock().ForReaders()
		_, result := takesOver(t.Context(), &reads, time.Second)
		require.ErrorIs(t, <-result, errors.ErrUnsupported)
	})
}
