package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// attempt sends the command that is due for the ticket of a call. The mutex is held before and after, unless the call got
// the lock while it waited for a place: see park.
func (l *lock) attempt(ctx context.Context, w *waiter, now core.Now) (_ core.Now, got bool) {
	limit := &l.shard.client.wire.Limits(l.name.Slot).Asks
	place, ok := limit.TryEnter()
	if !ok {
		if now, ok, got = l.park(ctx, w, limit, core.Never, now); ok {
			place = limit.Entered()
		}
		switch {
		case got && ok:
			place.Leave()
			return now, true
		case got || !ok:
			return now, got
		}
	}
	// The place comes first, so that the command is built when it can be sent.
	var k *work
	var cmd core.Command
	if t := w.Ticket; t != nil && w.Outcome == core.Waiting {
		k = l.shard.workOf(l, t)
		cmd = k.poll(place, now)
	}
	if cmd.Op == core.None {
		place.Leave()
		return now, false
	}
	k.sender = callSends
	sent := l.shard.client.sending(k, cmd, now)
	if cmd.Op == core.Acquire || cmd.Op == core.Resume || cmd.Op == core.Join {
		k.sent = l.shard.client.wire.Mark()
	}
	if cmd.Op == core.Join && w.Linger > 0 {
		l.contendedFor(now)
	}
	if l.shard.client.wire.abandonable() {
		return l.exchange(ctx, w, sent, place), false
	}
	return l.fly(w, sent, place), false
}

// exchange sends the command in the goroutine of its caller, who leaves it behind when the context ends or
// the call has its outcome otherwise.
func (l *lock) exchange(ctx context.Context, w *waiter, sent *call, place *wire.Limit) core.Now {
	c := l.shard.client
	if w.until == nil {
		w.until = newUntil()
	}
	u := w.until
	w.stage = flying
	l.shard.exit(l)

	stop := u.begin(ctx)
	a := c.carry(u, sent)
	stopped := stop == nil || stop()
	over := ctx.Err() != nil

	now := l.again()
	w.stage = running
	if !stopped {
		w.until = nil
	}
	if over && w.Outcome == core.Waiting { // first, since no answer in the caller's time is no fault of Redis
		l.Cancel(&w.Waiter, core.Cancelled, now)
	}
	l.landed(w, sent, a, place, now)
	c.sent(sent)
	return now
}

// fly sends the command in a goroutine of its own, which lasts until the answer is in, whatever becomes of
// the caller. If the command has to wait for a connection, rueidis opens that with its context, and an end of
// it would fail all commands that wait for the same connection. And where the client's commands have no order,
// no release is known to come behind a command that was left behind.
func (l *lock) fly(w *waiter, sent *call, place *wire.Limit) core.Now {
	c, id := l.shard.client, sent.cmd.ID
	started := c.wire.Start(func() {
		ctx := c.wire.Deadline(c.clock.time(c.clock.now().Time))
		a := c.carry(ctx, sent)
		now := l.again()
		t := l.Find(id)
		var caller *waiter
		if t != nil {
			if agent, _ := t.Agent(); agent != nil {
				caller = agent.Tag.(*waiter)
			}
		}
		l.landed(caller, sent, a, place, now)
		l.shard.exit(l)
		c.sent(sent)
	})
	now := l.shard.at
	if !started {
		l.landed(w, sent, answer{Reply: core.Reply{Fault: core.NotRun}, err: wire.ErrClosed}, place, now)
		c.sent(sent)
	}
	return now
}

// carry sends a command. It has one answer, also if the carrier panics.
func (c *Client) carry(ctx context.Context, sent *call) (a answer) {
	defer func() {
		if c.witness != nil {
			c.witness.carried(&sent.cmd)
		}
		if r := recover(); r != nil {
			a = panicked(r)
		}
	}()
	return c.wire.do(ctx, sent)
}

// landed handles the result of a command that a call has sent. w is nil if it has no waiter any
// more.
func (l *lock) landed(w *waiter, sent *call, a answer, place *wire.Limit, now core.Now) {
	c, k := l.shard.client, sent.work
	if a.heard {
		place.Heard()
	}
	if a.sent.IsLate() {
		l.follow(sent, a, place)
		return
	}
	alive := k.tenure != nil && k.tenure.ID == sent.cmd.ID
	if alive {
		k.sender = unasked
		if sent.cmd.Op == core.Acquire {
			k.sent = a.sent.Mark
		}
	}
	hopeless := false
	if w != nil && w.Outcome == core.Waiting {
		hopeless = w.answered(&a, &c.clock, now.Time)
		if a.holder != "" {
			w.CallTime = core.Span(c.callTime(time.Duration(now.Time.Since(sent.at)), w.Waits && w.Until.Since(now.Time) >= core.Span(queueLeast)))
			l.met(a.holder, w.Linger > 0, now)
		}
		if w.fails > 0 && !hopeless {
			c.shared.TellTrouble(l.name.Key, w.since, w.err)
		}
	}
	l.answer(&sent.cmd, a.Reply, now)
	if hopeless && w.Outcome == core.Waiting {
		l.Cancel(&w.Waiter, core.Failed, now)
	}
	left := errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded)
	if alive && k.tenure != nil && a.Fault == core.Unknown && left && k.place == nil {
		k.place = place // the command was left behind, and may be in flight yet
	} else {
		place.Leave()
	}
}

// follow waits in the background for the answer to a command that was left behind on a connection of its own.
// No release comes on that: so the keeper waits for the answer first.
func (l *lock) follow(sent *call, a answer, place *wire.Limit) {
	c, late, copied := l.shard.client, a.sent, *sent
	a.sent = wire.Sent{}
	started := c.wire.Start(func() {
		a.sent = late.Await(c.wire.Deadline(c.clock.time(c.clock.now().Time)))
		now := l.again()
		l.landed(nil, &copied, a, place, now)
		l.shard.exit(l)
	})
	if !started {
		late.GiveUp()
		l.landed(nil, sent, a, place, l.shard.at)
	}
}

// An until is the context of a command that its call may leave behind: it ends with the context of the caller, or when
// the call has its outcome otherwise, as by Close. It is used again by the next command, unless it has ended: so a call
// whose context cannot end allocates nothing, and its goroutine waits at no channel that others wait at.
type until struct {
	context.Context // the caller's
	onEnd           func()

	mu    sync.Mutex // protects following
	ended bool
	done  chan struct{} // closed by end
	told  wire.Turn     // that is left by then, the zero Turn for none
}

func newUntil() *until {
	u := &until{done: make(chan struct{})}
	u.onEnd = u.end
	return u
}

var _ wire.Leaver = (*until)(nil)

// begin ends u with the context of a caller. stop ends that, and reports whether u has not ended by it; nil for a context
// that has no end.
func (u *until) begin(ctx context.Context) (stop func() bool) {
	if u.Context = ctx; ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, u.onEnd)
}

// end ends the context. It is called without a mutex of a shard.
func (u *until) end() {
	u.mu.Lock()
	if !u.ended {
		u.ended = true
		close(u.done)
	}
	told := u.told
	u.mu.Unlock()
	told.Leave()
}

// Done implements [context.Context], as Err.
func (u *until) Done() <-chan struct{} { return u.done }

func (u *until) Err() error {
	if err := u.Context.Err(); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return context.Canceled
	}
	return nil
}

// Leaves implements [wire.Leaver].
func (u *until) Leaves(t wire.Turn) {
	u.mu.Lock()
	u.told = t
	ended := u.ended
	u.mu.Unlock()
	if ended {
		t.Leave()
	}
}
