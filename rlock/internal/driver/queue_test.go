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

// Only the release of an acquire whose caller left tells whether that was executed. (A client once
// discounted such a tenure twice.)
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

// A first waiter asks, subscribes and takes a ticket. While its subscription goes on, the next one
// takes a ticket at once.
func TestAWaiterOfAClientThatListensTakesATicketAtOnce(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		here.wire.(*fakeWire).stays = true
		for _, asks := range [][]core.Op{{core.Acquire, core.Join}, {core.Join}, {core.Join}} {
			h := holds(t, there.lock())
			sent := len(f.ops(core.Acquire, core.Join))
			l := here.lock()
			o, got := takes(t.Context(), l)
			synctest.Wait()
			assert.Equal(t, asks, f.ops(core.Acquire, core.Join)[sent:])
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, <-got)
			require.NoError(t, l.Unlock(t.Context(), o))
			time.Sleep(time.Second)
		}
		f.isClean()
	})
}

// The commands in flight to the node are as many as there may be. A release has a slot of its own.
func TestAWaiterLeavesTheQueueOfABusyNode(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		ctx, leave := context.WithCancel(t.Context())
		_, waits := takes(ctx, here.lock())
		synctest.Wait()
		require.Len(t, f.server.Queue, 1)
		f.gives(held, core.Acquire, core.Look)
		var others []<-chan error
		for i := range 300 {
			l := NewLock(here, FairKind, key+string(rune('a'+i)))
			_, got := takes(ctx, &l)
			others = append(others, got)
		}
		time.Sleep(2100 * time.Millisecond) // the ticket is to be looked for
		leave()
		require.ErrorIs(t, <-waits, context.Canceled)
		for _, got := range others {
			require.ErrorIs(t, <-got, context.Canceled)
		}
		synctest.Wait()
		assert.Empty(t, f.server.Queue)
		require.NoError(t, h.Release(t.Context()))
		time.Sleep(time.Minute)
	})
}

// In a Cluster rueidis sends each command over any of its connections to a node: an acquire may
// come after the release that undoes it. Over one connection it cannot, once the release is
// answered.
func TestAnAcquireThatComesAfterItsReleaseIsReleasedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.loose = true
		c := f.join(nil)
		c.wire.(*fakeWire).keeps = true
		f.onOp(core.Acquire, strays)
		require.Error(t, c.lock().Take(t.Context(), Request{Owner: terms.NewOwner()}))
		time.Sleep(5*time.Second + time.Millisecond) // between two ticks of the keeper
		require.NotZero(t, f.count(core.Leave))
		f.deliver(-1)
		synctest.Wait()
		require.Equal(t, 1, f.holders())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, f.holders())
		time.Sleep(time.Minute)
		f.isClean()
	})
}

// The message of a grant may overtake the answer to the Join. The caller has waited all the same:
// what it was waiting for may have happened between its attempt and its ticket.
func TestAGrantThatOvertakesTheAnswerToItsJoinWasWaitedFor(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		f.onOp(core.Join, late)
		l, req := here.lock(), request(terms.NewOwner())
		req.Answer = new(terms.Answer)
		got := later(func() error { return l.Take(t.Context(), req) })
		require.NoError(t, h.Release(t.Context()))
		f.deliver(-1)
		require.NoError(t, <-got)
		assert.True(t, req.Answer.Waited)
		assert.Zero(t, f.count(core.Look), "the grant came before the answer")
		require.NoError(t, l.Unlock(t.Context(), req.Owner))
		f.isClean()
	})
}

// Between the decision to send a command and the command itself a call may wait for one of the
// slots among those in flight, without the mutex. Any answer and any message may come meanwhile.

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

// holdsWhileRenewed returns a hold of which a renewal is under way, of that fate, with all slots of
// releases taken.
func holdsWhileRenewed(t *testing.T, f *fake, renewal fate) (h Handle, leave func()) {
	c := f.join(nil)
	h = holds(t, c.lock())
	f.givesNext(renewal, func(cmd *core.Command) bool { return cmd.Op == core.Mirror })
	time.Sleep(10*time.Second + 100*time.Millisecond) // a third of the lease
	require.Equal(t, 1, f.count(core.Mirror), "a renewal is under way")
	return h, fill(&c.wire.Limits(0).Releases)
}

// The answer to a renewal is none to the release, or the pass, that waits for a slot.
func TestTheAnswerToARenewalEndsNoOtherCommand(t *testing.T) {
	for _, passedOn := range []bool{false, true} {
		eachPassableKind(t, func(t *testing.T, f *fake) {
			h, leave := holdsWhileRenewed(t, f, late)
			var text string
			ended := later(func() (err error) {
				if !passedOn {
					return h.Release(t.Context())
				}
				text, err = h.Pass(t.Context(), time.Minute)
				return err
			})
			f.deliver(0) // the answer to the renewal
			synctest.Wait()
			assert.Empty(t, ended)
			assert.Zero(t, f.count(core.Leave))
			leave()
			require.NoError(t, <-ended)
			if passedOn {
				pass, err := ParsePass(text)
				require.NoError(t, err)
				h, err = f.clients[0].client.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
				require.NoError(t, err)
				require.NoError(t, h.Release(t.Context()))
			}
			assert.Equal(t, 1, f.count(core.Leave))
			f.isClean()
		})
	}
}

// Redis may have lost the key meanwhile: then there is nothing to pass on.
func TestALostTenureIsNotPassedOn(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		h, leave := holdsWhileRenewed(t, f, held)
		f.forgets()
		passed := later(func() error {
			_, err := h.Pass(t.Context(), time.Minute)
			return err
		})
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
		left := later(func() error { return c.lock().Take(ctx, request(terms.NewOwner())) })
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		leave()
		synctest.Wait()
		assert.Empty(t, f.ops(core.Acquire, core.Join))
		f.isClean()
	})
}
