package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Between the decision to send a command and the command itself a call may wait for one of the slots among those in flight,
// without the mutex. Any answer and any message may come meanwhile.

// fill takes all slots of the limit, and returns the function that gives them back.
func fill(limit *wire.Limit) (leave func()) {
	taken := 0
	for _, ok := limit.TryEnter(); ok; _, ok = limit.TryEnter() {
		taken++
	}
	return func() {
		for range taken {
			limit.Leave()
		}
	}
}

// renewals makes the answers to renewals wait.
func (f *fake) renewals(wait fate) {
	f.fate = func(_ uint32, cmd *core.Command) fate {
		if cmd.Op == core.Mirror && cmd.Owner != 0 {
			return wait
		}
		return passes
	}
}

// holdsWhileRenewed returns a hold of which a renewal is under way, with all slots of releases taken.
func holdsWhileRenewed(t *testing.T, f *fake) (h Handle, leave func()) {
	c := f.join(nil)
	f.renewals(late)
	h = holds(t, c.lock())
	time.Sleep(10*time.Second + 100*time.Millisecond) // a third of the lease
	require.Equal(t, 1, f.count(core.Mirror), "a renewal is under way")
	f.fate = nil
	return h, fill(&c.wire.Limits(0).Releases)
}

// The answer to a renewal is none to the release that waits for a slot.
func TestTheAnswerToARenewalDoesNotEndARelease(t *testing.T) {
	eachPassableKind(t, func(t *testing.T, f *fake) {
		h, leave := holdsWhileRenewed(t, f)
		released := make(chan error, 1)
		go func() { released <- h.Release(t.Context()) }()
		synctest.Wait()
		f.deliver(0) // the answer to the renewal
		synctest.Wait()
		assert.Empty(t, released)
		assert.Zero(t, f.count(core.Leave))
		leave()
		require.NoError(t, <-released)
		assert.Equal(t, 1, f.count(core.Leave))
		f.isClean()
	})
}

// The same of a pass.
func TestTheAnswerToARenewalDoesNotEndAPass(t *testing.T) {
	eachPassableKind(t, func(t *testing.T, f *fake) {
		h, leave := holdsWhileRenewed(t, f)
		type result struct {
			text string
			err  error
		}
		passed := make(chan result, 1)
		go func() {
			text, err := h.Pass(t.Context(), time.Minute)
			passed <- result{text, err}
		}()
		synctest.Wait()
		f.deliver(0)
		synctest.Wait()
		assert.Empty(t, passed)
		leave()
		r := <-passed
		require.NoError(t, r.err)
		pass, err := ParsePass(r.text)
		require.NoError(t, err)
		resumed, err := f.clients[0].client.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
		require.NoError(t, err)
		require.NoError(t, resumed.Release(t.Context()))
		assert.Zero(t, f.holders())
	})
}

// Redis may have lost the key meanwhile: then there is nothing to pass on.
func TestALostTenureIsNotPassedOn(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		f.renewals(held)
		h := holds(t, c.lock())
		time.Sleep(10*time.Second + 100*time.Millisecond)
		require.Equal(t, 1, f.count(core.Mirror), "a renewal is under way")
		leave := fill(&c.wire.Limits(0).Releases)
		f.server.Holders = nil
		passed := make(chan error, 1)
		go func() {
			_, err := h.Pass(t.Context(), time.Minute)
			passed <- err
		}()
		synctest.Wait()
		f.fate = nil
		f.deliver(0)
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-passed, terms.ErrLost)
		assert.Equal(t, 1, f.count(core.Mirror), "nothing is sent that would pass it on")
		f.isClean()
	})
}

// A call whose time is up while it waits for a slot sends nothing.
func TestACallThatLeavesWhileItWaitsForASlotSendsNothing(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		leave := fill(&c.wire.Limits(0).Asks)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- c.lock().Take(ctx, request(terms.NewOwner())) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		leave()
		synctest.Wait()
		assert.Empty(t, f.ops(core.Acquire, core.Join))
		f.isClean()
	})
}
