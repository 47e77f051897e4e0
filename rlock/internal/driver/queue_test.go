package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
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
					req.Wait, req.Answer, req.Unless = wait, new(terms.Answer), &wire.Condition{Source: "return 1"}
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
					req.Answer, req.Unless = new(terms.Answer), &wire.Condition{Source: "return 1"}
					require.NoError(t, l.Take(t.Context(), req))
					assert.True(t, req.Answer.Checked)
					require.NoError(t, l.Unlock(t.Context(), req.Owner))
					f.isClean()
				})
			})
		}
	}
}

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
