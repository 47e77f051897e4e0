package driver

import (
	"context"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Locks that are acquired together. Each is a call of its own, as any other; only the first commands of those that are not
// served at once travel in one pipeline, and those of one kind and slot in one call of a script (acquire_all.lua).

// A row is the calls whose first commands are sent together.
type row struct {
	client *Client
	calls  []rowCall
	sent   []*exchange
}

// A rowCall is the call for one lock of a row. It has ended, or waits.
type rowCall struct {
	hold   *hold
	lock   *lock   // that it waits for
	waiter *waiter // nil of a call that has ended
	err    error   // of one that has
}

// HoldAll acquires locks of one client with a handle each, in their order, in one attempt each, up to the first that is not
// free, and takes one round trip. It returns the handles of those before it and, if there is one, the error of the first
// that it has not acquired. A lock behind that may have been acquired and released. It is not for a client whose
// grants wait for replicas: a pipeline has no WAIT behind each.
func HoldAll(ctx, parent context.Context, locks []*Lock, requests []Request) (holds []Handle, err error) {
	r := &row{client: locks[0].driver}
	for i, l := range locks {
		if req := &requests[i]; !r.begin(ctx, l, l.newHold(parent, req), req) {
			break
		}
	}
	r.send(ctx)
	for i := range r.calls {
		one := &r.calls[i]
		if err != nil {
			one.drop(ctx)
			continue
		}
		if one.waiter != nil {
			one.goOn(ctx, ctx.Err() != nil)
		}
		if err = one.hold.begun(one.err); err == nil {
			holds = append(holds, one.hold)
		}
	}
	return holds, err
}

// begin begins the call for one lock, and reports whether another one may follow: not behind a lock that is not free, or
// whose call has something to wait for before its command.
func (r *row) begin(ctx context.Context, l *Lock, h *hold, req *Request) bool {
	w, at, now, err := r.client.begin(ctx, l.Name, req, h)
	r.calls = append(r.calls, rowCall{h, at, w, err})
	if w == nil {
		return err == nil
	}
	at.hear(w, now)
	at.Wait(&w.Call, now)
	at.shard.applyAll()
	switch a := at.Next(&w.Call, true, now); {
	case a.Do == core.Returns: // the call leaves the lock alone from now on
		one := &r.calls[len(r.calls)-1]
		one.waiter, one.err = nil, at.ended(ctx, w)
		return one.err == nil
	case a.Do == core.Sends && a.Op == core.Acquire:
		x := r.client.exchanges.Get().(*exchange)
		x.cmd, x.row = at.Lock.Command(&w.Call, a.Op, now), r
		w.carries(x)
		at.begins(x, now)
		r.sent = append(r.sent, x)
		w.stage = flying // until it goes on
		at.shard.exit(at)
		return true
	}
	at.shard.exit(at)
	return false
}

// send sends the commands, and returns when they have their answers, or when ctx has ended: then these are landed later.
func (r *row) send(ctx context.Context) {
	if len(r.sent) == 0 {
		return
	}
	all, done := r.sent, make(chan struct{})
	carry := func() {
		r.client.wire.carryAll(context.Background(), all)
		for _, x := range all {
			r.client.landLate(x)
		}
		close(done)
	}
	if !r.client.wire.Start(carry) { // the client is closed, and the calls hear of that
		for _, x := range all {
			x.answer.Fault = core.NotRun
			r.client.landLate(x)
		}
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// goOn goes on with the call as with any other, unless its caller leaves.
func (c *rowCall) goOn(ctx context.Context, leaves bool) {
	l, w := c.lock, c.waiter
	now := l.again()
	w.stage = running
	if w.abandon(); leaves {
		l.Leave(&w.Call, core.Cancelled, now)
	}
	c.err = l.wait(ctx, w, now)
}

// drop ends a call behind the first lock that was not free. A grant is released in the background.
func (c *rowCall) drop(ctx context.Context) {
	if c.waiter != nil {
		c.goOn(ctx, true)
	}
	if c.hold.begun(c.err) == nil {
		c.hold.ReleaseLater()
	}
}
