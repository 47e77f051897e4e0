package driver

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// redis is the carrier of a client: package wire for commands, and the hub for messages.
type redis struct {
	*wire.Redis
	hub *pubsub.Hub
}

func (r *redis) isSubscribed(n *Name) bool { return r.hub.Confirmed(n.GrantChannel()) }

func (r *redis) nodeOf(n *Name) uint32 { return r.Nodes.NodeOf(n.Slot) }

func (r *redis) refreshNodes(now time.Time, trouble bool) { r.Nodes.Refresh(now, trouble) }

// A carrier takes commands to Redis, and messages from there. A client has a redis; tests have a
// carrier whose answers they hold back, lose and reorder.
type carrier interface {
	// Carry sends a command and fills in its Answer, which has a Fault if ctx ends first. CarryAll
	// sends several commands in one pipeline.
	Carry(ctx context.Context, x *wire.Exchange)
	CarryAll(ctx context.Context, all []*wire.Exchange)
	// IsAbandonable reports whether the caller of Carry may leave a command behind, by the end of
	// ctx, without harm to others.
	IsAbandonable() bool
	// Ends reports whether a command that is sent now ends by itself, within the time of an Unlock.
	Ends() bool
	// IsSettled reports whether a command of the generation has been executed, or never will be.
	IsSettled(generation uint64) bool
	// Deadline returns the context of a call or command that no caller leaves. Within returns a
	// context that ends with ctx, or by that deadline.
	Deadline(now time.Time) context.Context
	Within(ctx context.Context) (context.Context, context.CancelFunc)

	// Tracks reports whether Redis notifies the client of changed keys.
	Tracks() bool
	// Limits returns the limits of commands in flight to the node of the slot, and nodeOf the number
	// of the lock's node.
	Limits(slot uint16) *wire.Limits
	nodeOf(n *Name) uint32

	// listen subscribes to the client's channel of the lock, without waiting. hear is called with
	// each message, and confirmed, under a mutex, when the subscription was confirmed, refused or
	// lost. Neither may wait.
	listen(n *Name, hear func(message string), confirmed func()) subscription
	// isSubscribed reports whether the client is subscribed to its channel of the lock anyway.
	isSubscribed(n *Name) bool

	// refreshNodes reads the list of nodes again if it was last read long ago, or in trouble: if a node
	// does not answer.
	refreshNodes(now time.Time, trouble bool)
	// Start calls work in a goroutine that Close waits for, and reports whether it did.
	Start(work func()) bool
}

// carry sends the command of a call, and reports whether x has the answer, or will never have one.
// Else the caller has left, by ctx or by x.context, and the answer lands later.
func (c *Client) carry(ctx context.Context, x *exchange) (answered bool) {
	u := x.context
	if u == nil { // the caller does not leave
		c.carryInPlace(ctx, x)
		if x.Answer.Sent.IsLate() { // the keeper repeats the command
			x.Answer.Sent.GiveUp()
		}
		return true
	}
	u.endWith(ctx)
	defer u.stopWatching()
	if c.wire.IsAbandonable() {
		return c.carryBehind(x)
	}
	return c.carryApart(x)
}

// deadline returns the context of a command that its caller leaves behind.
func (c *Client) deadline() context.Context {
	return c.wire.Deadline(c.clock.timeOf(c.clock.now().Time))
}

// carryBehind sends the command in the goroutine of its caller. If the caller leaves, its next
// command follows on the same connection, unless that was the direct one: then another goroutine
// waits for the answer.
func (c *Client) carryBehind(x *exchange) (answered bool) {
	c.carryInPlace(x.context, x)
	late := x.Answer.Sent
	if !late.IsLate() {
		if x.isBehind() {
			x.Answer.Fault = core.Behind
		}
		return true
	}
	if !c.wire.Start(func() {
		x.Answer.Sent = late.AwaitAnswer(c.deadline())
		c.landLate(x)
	}) {
		late.GiveUp()
		return true
	}
	return false
}

// carryApart sends the command in a goroutine of its own, which lasts until the answer is there. If
// the command has to wait for a connection, rueidis opens the connection with the command's
// context, whose end would fail all commands that wait for it. And where commands have no order, no
// command is known to follow one that was left behind.
func (c *Client) carryApart(x *exchange) (answered bool) {
	left, done := x.context.Done(), make(chan struct{})
	var claimed atomic.Bool // set by the first of two: the caller leaves, or the answer comes
	if !c.wire.Start(func() {
		c.carryInPlace(c.deadline(), x)
		if claimed.Swap(true) {
			c.landLate(x)
		} else {
			close(done)
		}
	}) {
		x.Answer = wire.Answer{Reply: core.Reply{Fault: core.NotRun}, Err: wire.ErrClosed}
		return true
	}
	select {
	case <-done:
	case <-left:
		if !claimed.Swap(true) {
			return false
		}
		<-done
	}
	return true
}

// carryInPlace sends a command. The command has one answer, also if the carrier panics.
func (c *Client) carryInPlace(ctx context.Context, x *exchange) {
	defer func() {
		if invariants {
			c.witness.carried(&x.Cmd)
		}
		if p := recover(); p != nil {
			x.Answer = panicked(p)
		}
	}()
	c.wire.Carry(ctx, &x.Exchange)
	c.noteSettled(x)
}

// carryAll sends commands of several tenures in one pipeline. Each has one answer, also if the
// carrier panics.
func (c *Client) carryAll(ctx context.Context, all []*exchange) {
	ctx, cancel := c.wire.Within(ctx)
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
	c.wire.CarryAll(ctx, commands)
	for _, x := range all {
		c.noteSettled(x)
	}
}

// noteSettled notes whether the answer to a Leave is settled, so that no command of its tenure can
// run after it.
func (c *Client) noteSettled(x *exchange) {
	if x.Cmd.Op == core.Leave {
		x.Answer.Settled = c.wire.IsSettled(x.generation)
	}
}

// landLate lands the answer to a command whose caller has left.
func (c *Client) landLate(x *exchange) {
	l := x.lock
	now := l.shard.lock()
	l.land(x, now)
	l.shard.exit(l)
}

// panicked returns the answer to a command whose carrier panicked, as code of the user that rueidis
// calls may. It is called by the function that has recovered.
func panicked(value any) wire.Answer {
	return wire.Answer{Reply: core.Reply{Fault: core.Unknown}, Err: &contract.PanicError{Value: value, Stack: debug.Stack()}}
}

// isBehind reports whether the command has no answer since its caller left, or its deadline passed.
func (x *exchange) isBehind() bool {
	a := &x.Answer
	return (a.Fault == core.Unknown || a.Fault == core.Behind) && (errors.Is(a.Err, context.Canceled) || errors.Is(a.Err, context.DeadlineExceeded))
}

// A commandContext is the context of a command that its call may leave behind. It ends with the
// context of the caller, or when the call is decided in another way, as by Close. The next command
// reuses it unless it has ended: so a call whose context cannot end allocates nothing, and its
// goroutine shares no Done channel.
type commandContext struct {
	context.Context             // the caller's context
	onEnd           func()      // the method endCommand
	stop            func() bool // ends the watch of the caller's context; nil for a context that cannot end
	spent           bool        // the context may have ended, so that it must not be reused; only the call's goroutine writes the field

	mu    sync.Mutex // guards the fields below
	ended bool
	done  chan struct{} // closed by endCommand
	use   wire.Use      // the use of a direct connection that endCommand leaves; the zero Use for none
}

func newCommandContext() *commandContext {
	u := &commandContext{done: make(chan struct{})}
	u.onEnd = u.endCommand
	return u
}

var _ wire.Leaver = (*commandContext)(nil)

// endWith makes u end with the context of a caller, until stopWatching is called.
func (u *commandContext) endWith(ctx context.Context) {
	if u.Context, u.stop = ctx, nil; ctx.Done() != nil {
		u.stop = context.AfterFunc(ctx, u.onEnd)
	}
}

// stopWatching ends the watch of the caller's context.
func (u *commandContext) stopWatching() {
	if u.stop != nil && !u.stop() {
		u.spent = true
	}
}

// endCommand ends the context. It is called without a mutex of a shard.
func (u *commandContext) endCommand() {
	u.mu.Lock()
	if !u.ended {
		u.ended = true
		close(u.done)
	}
	use := u.use
	u.mu.Unlock()
	use.Leave()
}

// Done implements [context.Context], as does Err.
func (u *commandContext) Done() <-chan struct{} { return u.done }

func (u *commandContext) Err() error {
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
func (u *commandContext) Leaves(use wire.Use) {
	u.mu.Lock()
	u.use = use
	ended := u.ended
	u.mu.Unlock()
	if ended {
		use.Leave()
	}
}
