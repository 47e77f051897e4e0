package driver

import (
	"context"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Locks that are acquired together. Each has a call of its own, like any other lock. If the locks
// are not free at once in this process, their first commands travel in one pipeline, and the first
// commands for locks of one kind and slot in one call of a script (acquire_all.lua).

// A jointAcquire is a list of calls whose first commands are sent together.
type jointAcquire struct {
	client *Client
	calls  []jointCall
	sent   []*exchange
}

// A jointCall is the call for one of the locks.
type jointCall struct {
	hold   *hold
	lock   *lockState // the lock that it waits for
	waiter *waiter    // the waiting call; nil if it has ended
	err    error      // the result of a call that has ended
}

// HoldAll acquires locks of one client in their order, with a handle and a single attempt each, up
// to the first that is not free at once. It takes one round trip. The call of that first one goes
// on alone. HoldAll returns the handles of the locks before it and, if its call fails, the error.
// The locks behind it were not asked for, or were acquired and are released in the background.
//
// A client whose grants wait for replicas must not call HoldAll: a pipeline has no WAIT behind each
// command.
func HoldAll(ctx, parent context.Context, locks []*NamedLock, requests []Request) (holds []Handle, err error) {
	r := &jointAcquire{client: locks[0].driver}
	for i, l := range locks {
		if req := &requests[i]; !r.beginNext(ctx, l, l.newHold(parent, req), req) {
			break
		}
	}
	r.sendFirstCommands(ctx)
	atOnce := true // the locks so far were free at once
	for i := range r.calls {
		one := &r.calls[i]
		if !atOnce { // a grant is released in the background
			if one.waiter != nil {
				one.finishJoint(ctx, true)
			}
			if one.hold.endIfFailed(one.err) == nil {
				one.hold.ReleaseLater()
			}
			continue
		}
		if one.waiter != nil {
			atOnce = one.finishJoint(ctx, ctx.Err() != nil)
		}
		if err = one.hold.endIfFailed(one.err); err != nil {
			atOnce = false
			continue
		}
		holds = append(holds, one.hold)
	}
	return holds, err
}

// beginNext begins the call for one lock, and reports whether the next one may begin: not if the
// lock is not free, or its call has to wait before it sends a command.
func (r *jointAcquire) beginNext(ctx context.Context, l *NamedLock, h *hold, req *Request) bool {
	w, at, now, err := r.client.beginAcquire(ctx, l.Name, req, h)
	r.calls = append(r.calls, jointCall{h, at, w, err})
	if w == nil {
		return err == nil
	}
	at.reuseSubscription(w, now)
	at.Wait(&w.Call, now)
	at.shard.applyEffects()
	switch a := at.Next(&w.Call, true, now); {
	case a.Do == core.Returns:
		one := &r.calls[len(r.calls)-1]
		at.exitWithError(w)
		one.waiter, one.err = nil, r.client.awaitResult(ctx, l.Name, w)
		return one.err == nil
	case a.Do == core.Sends && a.Op == core.Acquire:
		x := r.client.exchanges.Get().(*exchange)
		x.Cmd = at.Lock.Command(&w.Call, a.Op, now)
		x.waiter, w.carried = w, x
		at.fillExchange(x, now)
		r.sent = append(r.sent, x)
		w.stage = flying // until it goes on
		at.shard.exit(at)
		return true
	}
	at.shard.exit(at)
	return false
}

// sendFirstCommands sends the commands, and returns when their answers have landed, or when ctx has
// ended: then they land later.
func (r *jointAcquire) sendFirstCommands(ctx context.Context) {
	if len(r.sent) == 0 {
		return
	}
	all, done := r.sent, make(chan struct{})
	carry := func() {
		r.client.carryAll(context.Background(), all)
		for _, x := range all {
			r.client.landLate(x)
		}
		close(done)
	}
	if !r.client.wire.Start(carry) { // the client is closed, and the calls hear of that
		for _, x := range all {
			x.Answer.Fault = core.NotRun
			r.client.landLate(x)
		}
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// finishJoint goes on with the call as with any other, or ends it if its caller leaves. It reports
// whether the call had ended by itself.
func (c *jointCall) finishJoint(ctx context.Context, leaves bool) (ended bool) {
	l, w := c.lock, c.waiter
	now := l.shard.lock()
	w.stage, ended = running, w.Outcome != core.Waiting
	if w.abandon(); leaves {
		l.End(&w.Call, core.Cancelled, now)
	}
	c.err = l.runAndExit(ctx, w, now)
	return ended
}
