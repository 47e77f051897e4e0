package driver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// One ticket and one subscription stand for all waiters of a client.
func TestManyWaitersShareOneSubscription(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		var r lineUp
		for range 20 {
			r.join(t, here, "")
		}
		assert.Len(t, f.server.Queue, 1)
		assert.Equal(t, 1, f.count(core.Join))
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

// A ticket of a client that is not told of its grants polls.
func TestATicketPollsWhileItsSubscriptionIsNotConfirmed(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		f.mu.Lock()
		f.pubsub = silent
		f.mu.Unlock()
		l := here.lock()
		o, got := takes(t.Context(), l)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, f.server.Queue, 1)
		assert.True(t, f.server.Queue[0].Polls)
		freed := time.Now()
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-got)
		assert.LessOrEqual(t, time.Since(freed), lastPoll)
		require.NoError(t, l.Unlock(t.Context(), o))
		f.isClean()
	})
}

// A first waiter asks, subscribes and takes a ticket. While its subscription goes on, the next one takes a ticket at once.
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
		f.mu.Lock()
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Acquire || cmd.Op == core.Look {
				return held
			}
			return passes
		}
		f.mu.Unlock()
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

// In a Cluster rueidis sends each command over any of its connections to a node: an acquire may come after the release
// that undoes it. Over one connection it cannot, once the release is answered.
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

// The message of a grant may overtake the answer to the Join. The caller has waited all the same: what it was waiting for may
// have happened between its attempt and its ticket.
func TestAGrantThatOvertakesTheAnswerToItsJoinWasWaitedFor(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		f.onOp(core.Join, late)
		l, req := here.lock(), request(terms.NewOwner())
		req.Answer = new(terms.Answer)
		got := make(chan error, 1)
		go func() { got <- l.Take(t.Context(), req) }()
		synctest.Wait()
		require.NoError(t, h.Release(t.Context()))
		f.deliver(-1)
		require.NoError(t, <-got)
		assert.True(t, req.Answer.Waited)
		assert.Zero(t, f.count(core.Look), "the grant came before the answer")
		require.NoError(t, l.Unlock(t.Context(), req.Owner))
		f.isClean()
	})
}

// A call whose condition is met has the answer by one command, whether it waits or not and whether it begins with an acquire or,
// where its client listens already, with a ticket. It leaves nothing behind, and the callers behind it go on.
func TestACallWhoseConditionIsMetTakesNothing(t *testing.T) {
	for _, wait := range []time.Duration{0, terms.Forever} {
		for name, listens := range map[string]bool{"acquire": false, "join": true} {
			t.Run(fmt.Sprint(name, " ", wait > 0), func(t *testing.T) {
				bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
					here, there := f.join(nil), f.join(nil)
					here.wire.(*fakeWire).stays = listens
					l := here.lock()
					if listens { // from a wait before
						h := holds(t, there.lock())
						o, got := takes(t.Context(), l)
						synctest.Wait()
						require.NoError(t, h.Release(t.Context()))
						require.NoError(t, <-got)
						require.NoError(t, l.Unlock(t.Context(), o))
					}
					h := holds(t, there.lock())
					f.mu.Lock()
					f.met = "it is 42"
					sent := len(f.sent)
					f.mu.Unlock()
					req := request(terms.NewOwner())
					req.Wait, req.Answer, req.Unless = wait, new(terms.Answer), &terms.Condition{Source: "return 1"}
					require.ErrorIs(t, l.Take(t.Context(), req), terms.ErrAnswered)
					assert.Equal(t, "it is 42", req.Answer.Text)
					assert.True(t, req.Answer.Checked)
					assert.False(t, req.Answer.Waited)
					f.mu.Lock()
					assert.Len(t, f.sent, sent+1)
					f.met = ""
					f.mu.Unlock()
					require.NoError(t, h.Release(t.Context()))
					req = request(terms.NewOwner())
					req.Answer, req.Unless = new(terms.Answer), &terms.Condition{Source: "return 1"}
					require.NoError(t, l.Take(t.Context(), req))
					assert.True(t, req.Answer.Checked)
					require.NoError(t, l.Unlock(t.Context(), req.Owner))
					f.isClean()
				})
			})
		}
	}
}
