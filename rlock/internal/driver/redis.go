package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// redis is the carrier of a client: package wire, and the hub for the messages.
type redis struct {
	*wire.Redis
	courier
	hub *pubsub.Hub
}

func (r *redis) hears(n *Name) bool { return r.hub.Confirmed(n.GrantChannel()) }

func (r *redis) group(n *Name) uint32 { return r.Nodes.Of(n.Slot) }

func (r *redis) refresh(now time.Time, trouble bool) { r.Nodes.Refresh(now, trouble) }

// A carrier takes commands to Redis, and messages from there. The one of a client is redis (redis.go);
// tests have one whose answers they hold back, lose and reorder.
type carrier interface {
	// Tracks reports whether Redis tells of changed keys.
	Tracks() bool
	// Limits are those of the commands in flight to the node of the slot, and group is the number of the lock's node.
	Limits(slot uint16) *wire.Limits
	group(n *Name) uint32

	// carry takes the command of a call to Redis, and reports whether it has its answer, or will have none. Otherwise the
	// caller has left, by the context or by x.until, and the answer is landed later. carryAll takes the commands of the keeper
	// there, in one pipeline.
	carry(ctx context.Context, x *exchange) (answered bool)
	carryAll(ctx context.Context, all []*exchange)

	// listen subscribes to the channel on which the client is told of its tickets. It waits for nothing, and
	// neither does what it calls: hear with each message, and confirmed, under a mutex of its own, when the
	// subscription was confirmed, refused or lost.
	listen(n *Name, hear func(message string), confirmed func()) subscription
	// hears reports whether that channel is subscribed to anyhow.
	hears(n *Name) bool

	// refresh looks at the nodes again if that is long ago, or one does not answer.
	refresh(now time.Time, trouble bool)
	// Start calls work in a goroutine that Close waits for, and reports whether it did.
	Start(work func()) bool
}

// A line sends commands to Redis. What may be left behind, and on which connection, is known here and below only.
type line interface {
	// Carry sends a command and fills in its answer, or that there is none when ctx ends. CarryAll sends several in one
	// pipeline.
	Carry(ctx context.Context, x *wire.Exchange)
	CarryAll(ctx context.Context, all []*wire.Exchange)
	// IsAbandonable reports whether the caller of Carry may leave a command behind now, by the end of its context, without
	// harm to others.
	IsAbandonable() bool
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
		if x.Answer.Sent.IsLate() { // the keeper sends it again
			x.Answer.Sent.GiveUp()
		}
		return true
	case r.line.IsAbandonable():
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
	late := x.Answer.Sent
	if !late.IsLate() {
		if x.isBehind() {
			x.Answer.Fault = core.Behind
		}
		return true
	}
	x.Answer.Sent = wire.Sent{}
	if !r.line.Start(func() {
		x.Answer.Sent = late.Await(r.deadline())
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
		x.Answer = wire.Answer{Reply: core.Reply{Fault: core.NotRun}, Err: wire.ErrClosed}
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
		if invariants {
			r.client.witness.carried(&x.Cmd)
		}
		if p := recover(); p != nil {
			x.Answer = panicked(p)
		}
	}()
	r.line.Carry(ctx, &x.Exchange)
	x.settles(r.line)
}

// carryAll implements carrier. Each command has one answer, also if the line panics.
func (r *courier) carryAll(ctx context.Context, all []*exchange) {
	ctx, cancel := r.line.Within(ctx)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			for _, x := range all {
				if a := &x.Answer; !a.Heard && a.Err == nil {
					*a = panicked(p)
				}
			}
		}
	}()
	commands := make([]*wire.Exchange, len(all))
	for i, x := range all {
		commands[i] = &x.Exchange
	}
	r.line.CarryAll(ctx, commands)
	for _, x := range all {
		x.settles(r.line)
	}
}

// settles notes whether the answer to a Leave is settled: no command of its tenure can run after it.
func (x *exchange) settles(l line) {
	if x.Cmd.Op == core.Leave {
		x.Answer.Settled = l.IsSettled(x.after)
	}
}

// landLate lands a command whose caller has left.
func (c *Client) landLate(x *exchange) {
	l := x.lock
	now := l.shard.take()
	l.land(x, now)
	l.shard.exit(l)
}

// panicked is the answer to a command whose carrier has panicked.
func panicked(r any) wire.Answer {
	return wire.Answer{Reply: core.Reply{Fault: core.Unknown}, Err: fmt.Errorf("a command panicked: %v", r)}
}

// isBehind reports whether the command has no answer since its caller, or its deadline, has left it behind.
func (x *exchange) isBehind() bool {
	a := &x.Answer
	return (a.Fault == core.Unknown || a.Fault == core.Behind) && (errors.Is(a.Err, context.Canceled) || errors.Is(a.Err, context.DeadlineExceeded))
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
