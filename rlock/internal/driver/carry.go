package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A line sends commands to Redis. What may be left behind, and on which connection, is known here and below only.
type line interface {
	// do sends a command and returns its answer, or that there is none when ctx ends. doAll sends several in one pipeline,
	// and fills their answers in.
	do(ctx context.Context, x *exchange) answer
	doAll(ctx context.Context, all []*exchange)
	// abandonable reports whether the caller of do may leave a command behind now, by the end of its context, without harm
	// to others.
	abandonable() bool
	// Ends reports whether a command that is sent now ends by itself, in the time that an Unlock has.
	Ends() bool
	// IsSettled reports whether a command of the generation has been executed by now, or never will be.
	IsSettled(generation uint64) bool
	// Deadline is for a command whose caller does not leave.
	Deadline(now time.Time) context.Context
	Within(ctx context.Context) (context.Context, context.CancelFunc)
	Start(work func()) bool
}

// A courier carries commands over a line: it is the part of a carrier that sends.
type courier struct {
	line   line
	client *Client
}

// carry implements carrier.
func (r *courier) carry(ctx context.Context, x *exchange) (answered bool) {
	switch {
	case x.until == nil: // its caller does not leave
		ctx = context.Background()
		if !r.line.Ends() { // to wait for a context as well costs 3 % of the throughput of many goroutines
			ctx = r.deadline()
		}
		r.do(ctx, x)
		if x.answer.sent.IsLate() { // the keeper sends it again
			x.answer.sent.GiveUp()
		}
		return true
	case r.line.abandonable():
		return r.carryBehind(ctx, x)
	default:
		return r.carryApart(ctx, x)
	}
}

// deadline returns the context of a command whose caller does not end it.
func (r *courier) deadline() context.Context {
	clock := &r.client.clock
	return r.line.Deadline(clock.time(clock.now().Time))
}

// carryBehind sends the command in the goroutine of its caller. If that leaves, the next command comes behind this one; but
// not on a direct connection, where the answer is waited for.
func (r *courier) carryBehind(ctx context.Context, x *exchange) (answered bool) {
	x.until.begin(ctx)
	defer x.until.stops()
	r.do(x.until, x)
	late := x.answer.sent
	if !late.IsLate() {
		if x.isBehind() {
			x.answer.Fault = core.Behind
		}
		return true
	}
	x.answer.sent = wire.Sent{}
	if !r.line.Start(func() {
		x.answer.sent = late.Await(r.deadline())
		r.client.landLate(x)
	}) {
		late.GiveUp()
		return true
	}
	return false
}

// carryApart sends the command in a goroutine of its own, which lasts until the answer is in. If the command has to wait for
// a connection, rueidis opens that with its context, and an end of it would fail all commands that wait for the same
// connection. And where the client's commands have no order, none is known to come behind one that was left behind.
func (r *courier) carryApart(ctx context.Context, x *exchange) (answered bool) {
	u := x.until
	u.begin(ctx)
	defer u.stops()
	done := make(chan struct{})
	var claimed atomic.Bool // by the caller, which has left, or by the answer
	if !r.line.Start(func() {
		r.do(r.deadline(), x)
		if claimed.Swap(true) {
			r.client.landLate(x)
		} else {
			close(done)
		}
	}) {
		x.answer = answer{Reply: core.Reply{Fault: core.NotRun}, err: wire.ErrClosed}
		return true
	}
	select {
	case <-done:
	case <-u.Done():
		if !claimed.Swap(true) {
			return false
		}
		<-done
	}
	return true
}

// do sends a command. It has one answer, also if the line panics.
func (r *courier) do(ctx context.Context, x *exchange) {
	defer func() {
		r.client.witness.carried(&x.cmd)
		if p := recover(); p != nil {
			x.answer = panicked(p)
		}
	}()
	x.answer = r.line.do(ctx, x)
	x.settles(r.line)
}

// carryAll implements carrier. Each command has one answer, also if the line panics.
func (r *courier) carryAll(ctx context.Context, all []*exchange) {
	ctx, cancel := r.line.Within(ctx)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			for _, x := range all {
				if a := &x.answer; !a.heard && a.err == nil {
					*a = panicked(p)
				}
			}
		}
	}()
	r.line.doAll(ctx, all)
	for _, x := range all {
		x.settles(r.line)
	}
}

// settles notes whether the answer to a Leave is settled: no command of its tenure can run after it.
func (x *exchange) settles(l line) {
	if x.cmd.Op == core.Leave {
		x.answer.Settled = l.IsSettled(x.after)
	}
}

// landLate lands a command whose caller has left.
func (c *Client) landLate(x *exchange) {
	l := x.lock
	now := l.again()
	l.land(x, now)
	l.shard.exit(l)
}

// panicked is the answer to a command whose carrier has panicked.
func panicked(r any) answer {
	return answer{Reply: core.Reply{Fault: core.Unknown}, err: fmt.Errorf("a command panicked: %v", r)}
}

// isBehind reports whether the command has no answer since its caller, or its deadline, has left it behind.
func (x *exchange) isBehind() bool {
	a := &x.answer
	return (a.Fault == core.Unknown || a.Fault == core.Behind) && (errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded))
}

// An until is the context of a command that its call may leave behind: it ends with the context of the caller, or when
// the call has its outcome otherwise, as by Close. It is used again by the next command, unless it has ended: so a call
// whose context cannot end allocates nothing, and its goroutine shares no Done channel.
type until struct {
	context.Context             // the caller's
	onEnd           func()      // is end
	stop            func() bool // begun: ends the watch of the caller's context; nil for one that has no end
	spent           bool        // it has ended, or may: another command needs another one. Its call's goroutine writes it

	mu    sync.Mutex // protects following
	ended bool
	done  chan struct{} // closed by end
	told  wire.Use      // that is left by then, the zero Use for none
}

func newUntil() *until {
	u := &until{done: make(chan struct{})}
	u.onEnd = u.end
	return u
}

var _ wire.Leaver = (*until)(nil)

// begin ends u with the context of a caller, until stops.
func (u *until) begin(ctx context.Context) {
	if u.Context, u.stop = ctx, nil; ctx.Done() != nil {
		u.stop = context.AfterFunc(ctx, u.onEnd)
	}
}

// stops ends that.
func (u *until) stops() {
	if u.stop != nil && !u.stop() {
		u.spent = true
	}
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
func (u *until) Leaves(t wire.Use) {
	u.mu.Lock()
	u.told = t
	ended := u.ended
	u.mu.Unlock()
	if ended {
		t.Leave()
	}
}
