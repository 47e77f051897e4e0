package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// run is the loop of every call that waits: for the lock, for a release, for a guarded write. Package core decides, and run
// carries that out. It is called with the mutex held, and returns with it, unless the call was served: then another goroutine
// has told it that it has the lock, and it has not taken the mutex again.
func (l *lock) run(ctx context.Context, w *waiter, now core.Now) (served bool) {
	s := l.shard
	var slot *wire.Limit
	if w.Tenure != nil { // most likely it has a command to send
		slot, _ = l.slots(w).TryEnter()
	}
	for {
		s.applyAll()
		a := l.Next(&w.Call, slot != nil, now)
		if slot != nil && a.Do != core.Sends {
			slot.Leave()
			slot = nil
		}
		switch a.Do {
		case core.Returns:
			return false
		case core.Sends:
			now = l.send(ctx, w, a.Op, slot, now)
			slot = nil
		case core.Queues:
			limit, ok := l.slots(w), false
			if slot, ok = limit.TryEnter(); !ok {
				now, slot, served = l.park(ctx, w, limit, a.Until, now)
			}
		case core.Sleeps:
			now, _, served = l.park(ctx, w, nil, a.Until, now)
		default:
			panic("driver: a call does next " + a.Do.String())
		}
		if served {
			if slot != nil {
				slot.Leave()
			}
			return true
		}
	}
}

// slots returns the limit of the commands in flight that the call's has a slot in: releases have one of their own.
func (l *lock) slots(w *waiter) *wire.Limit {
	limits := l.shard.client.wire.Limits(l.name.Slot)
	if p := w.Purpose(); p == core.Releases || p == core.Forces {
		return &limits.Releases
	}
	return &limits.Asks
}

// send sends the command of a call, and lands the answer, unless the caller has left before.
func (l *lock) send(ctx context.Context, w *waiter, op core.Op, slot *wire.Limit, now core.Now) core.Now {
	c := l.shard.client
	x := c.exchanges.Get().(*exchange)
	x.cmd = l.Lock.Command(&w.Call, op, now)
	x.write, x.passed, x.slot = w.write, w.passed, slot
	x.unless = w.unless(op)
	w.carries(x)
	l.begins(x, now)
	u := w.flies()
	x.until = u
	l.shard.exit(l)

	answered := c.wire.carry(ctx, x)
	over := u != nil && ctx.Err() != nil

	now = l.again()
	w.lands(u)
	if over && w.Purpose() == core.Locks { // first, since it does not want the answer any more
		l.Leave(&w.Call, core.Cancelled, now)
	}
	if answered {
		l.land(x, now)
	} else {
		w.abandon()
	}
	if over { // after it, since the answer to another command says whether it was executed
		l.Leave(&w.Call, core.Cancelled, now)
	}
	return now
}

// An exchange is a command on its way, and its answer.
type exchange struct {
	cmd    core.Command
	name   *Name
	kind   *kind
	text   string // the owner as Redis knows it: "<uuid>:<id>"
	passed string // of a Resume: the owner that the lock was passed on with; of a forced Leave: the holder
	joins  string // the same of the ticket that joins with a Leave
	track  bool   // of a Mirror: Redis is to tell of changes of the key
	counts bool   // of a Join and a Look: where does the ticket stand?
	first  bool   // an acquire, a write or a release, and no other command of the tenure can be in flight: see wire.Order
	at     core.Time
	after  uint64           // of a Leave: the generation of the command that has brought the tenure in, see wire.Sent
	until  *until           // by which its caller leaves, nil for one that does not
	write  *write           // of a Write, and of a Leave that carries one
	row    *row             // of an Acquire: that it is sent with, nil for none
	unless *terms.Condition // of an Acquire or a Join: the condition before it, nil for none

	lock    *lock
	work    *work              // nil of a forced Leave
	waiter  *waiter            // whose goroutine carries it; nil for the keeper, or if it has left
	slot    *wire.Limit        // nil for the keeper
	info    *terms.RenewedInfo // of the keeper's batch
	claimed bool               // of a Mirror: Redis was asked for a claim before
	answer  answer
}

// An answer is the result of a command.
type answer struct {
	core.Reply
	err    error
	holder string    // as Redis names it
	clock  int64     // of Redis in µs, 0 if it is not told
	met    *string   // what the condition has returned in place of the command, nil if that was executed
	before int       // the ticket is in the queue, and so many stand before it; negative: that is not known
	sent   wire.Sent // of a command that was sent by do
	heard  bool      // the server has answered
}

// begins makes a command ready to be sent: its answer is given to land.
func (l *lock) begins(x *exchange, now core.Now) {
	c, cmd := l.shard.client, &x.cmd
	x.lock, x.name, x.kind, x.at = l, l.name, l.kind(), now.Time
	var k *work
	switch t := cmd.Tenure(); {
	case t != nil:
		k = l.shard.workOf(l, t)
		if invariants {
			c.witness.polled(cmd, x.slot)
		}
	case cmd.Op == core.Write:
		k = l.shard.workOf(l, l.Owner())
	default: // by force
		x.text = x.passed
		return
	}
	x.work = k
	l.names(x)
	switch cmd.Op {
	case core.Join:
		k.queued, x.counts = true, cmd.Bounded || l.isWatched()
	case core.Look:
		x.counts = l.isWatched()
	case core.Mirror:
		x.track = k.buildTracked(now)
	case core.Leave:
		if cmd.Joins.ID != (core.ID{}) {
			l.joinsNext(x)
		}
	case core.Acquire, core.Resume, core.Step, core.Unmark, core.Write: // they need no more
	default:
		panic("driver: a command " + cmd.Op.String())
	}
	x.first = !k.queued && x.isFirst()
}

// names gives the command the owner that Redis knows the tenure by, or will know it by.
func (l *lock) names(x *exchange) {
	k, cmd := x.work, &x.cmd
	owner := cmd.Owner
	if l.owner != 0 && cmd.Op != core.Mirror {
		owner = l.owner // also of a tenure that no call knows of
	}
	if k.text == "" || k.owner != owner {
		k.text, k.owner = l.shard.client.textOf(cmd.ID, owner, cmd.More), owner
	}
	x.text, x.after = k.text, k.sent
}

// joinsNext gives a Leave the ticket that joins the queue with it.
func (l *lock) joinsNext(x *exchange) {
	s, next := l.shard, &x.cmd.Joins
	k := s.workOf(l, l.Find(next.ID))
	k.text, k.owner = s.client.textOf(next.ID, next.Owner, next.More), next.Owner
	k.queued = true
	x.joins = k.text
}

// isFirst reports whether no earlier command of a tenure that was never told to queue can be in flight: see wire.Order.
func (x *exchange) isFirst() bool {
	switch x.cmd.Op {
	case core.Acquire, core.Write:
		return !x.cmd.Follows
	case core.Leave:
		return !x.cmd.Follows && x.joins == ""
	case core.Resume, core.Join, core.Look, core.Mirror, core.Step, core.Unmark:
		return false
	default:
		panic(x.cmd.Op)
	}
}

// land tells package core the result of a command: of a call or of the keeper, in time or late. The mutex is held. The
// exchange is over then.
func (l *lock) land(x *exchange, now core.Now) {
	c, k, a := l.shard.client, x.work, &x.answer
	if a.heard && x.slot != nil {
		x.slot.Heard()
	}
	alive := k != nil && k.tenure != nil && k.tenure.ID == x.cmd.ID
	l.entered(x, alive)
	if w := x.waiter; w != nil && w.Purpose() != core.Locks {
		w.err = a.err
	}
	hopeless := l.answersCaller(x, alive, now)
	if x.cmd.Op == core.Mirror {
		l.countRenewal(x, alive, now)
	}
	if x.cmd.Op == core.Leave && a.err != nil {
		l.clearsTheWay(a, now)
		if !a.Left { // else only a message was refused
			c.tellRefused(l.name.Key, a.err)
		}
	}
	if a.err != nil {
		_, l.shard.fault = wire.Diagnose(a.err)
	}
	checks := x.checksFor(alive)
	if invariants {
		c.witness.landed(&x.cmd)
	}
	l.Answer(&x.cmd, x.call(), a.Reply, now)
	switch {
	case hopeless != nil:
		l.Leave(&hopeless.Call, core.Failed, now)
	case checks != nil:
		l.checked(checks, a.met, now)
	}
	if x.counts {
		l.counted(x)
	}
	l.freeSlot(x, alive)
	if x.cmd.Op == core.Mirror {
		if l.shard.endMirrorWait(l); alive && x.work.tenure != nil {
			l.tend(x.work, now)
		}
	}
	if x.waiter != nil {
		x.waiter.carried = nil
	}
	*x = exchange{}
	c.exchanges.Put(x)
}

// entered notes the generation of a command that may have brought a tenure in.
func (l *lock) entered(x *exchange, alive bool) {
	switch op := x.cmd.Op; {
	case alive && (op == core.Acquire || op == core.Resume || op == core.Join):
		x.work.sent = x.answer.sent.Generation
	case x.joins != "":
		if t := l.Find(x.cmd.Joins.ID); t != nil {
			l.shard.workOf(l, t).sent = x.answer.sent.Generation
		}
	}
}

// freeSlot gives back the slot of a command. One that was left behind may still be in flight: it keeps the slot until its
// tenure has left.
func (l *lock) freeSlot(x *exchange, alive bool) {
	k := x.work
	switch {
	case x.slot == nil:
	case alive && k.tenure != nil && k.slot == nil && x.isBehind() && x.cmd.Op != core.Leave:
		k.slot = x.slot
	default:
		x.slot.Leave()
	}
}

// answersCaller notes what the answer says to the call that waits for the lock by the tenure, which may be another one than
// has sent the command. It returns the call if waiting does not cure the error, else nil.
func (l *lock) answersCaller(x *exchange, alive bool, now core.Now) (hopeless *waiter) {
	c, a := l.shard.client, &x.answer
	if !alive || a.Fault == core.Behind {
		return nil
	}
	agent := x.work.tenure.Agent()
	if agent == nil || agent.Purpose() != core.Locks || agent.Outcome != core.Waiting {
		return nil
	}
	w := agent.Tag.(*waiter)
	if a.clock > 0 && w.clock == 0 {
		w.clock, w.read = a.clock, x.at
	}
	switch {
	case w.answered(a, &c.clock, now.Time):
		return w
	case w.err != nil:
		c.TellTrouble(l.name.Key, w.since, w.err)
	}
	return nil
}

// unless returns the condition before a command of the call, nil for none.
func (w *waiter) unless(op core.Op) *terms.Condition {
	if op == core.Acquire || op == core.Join {
		return w.req.Unless
	}
	return nil
}

// checksFor returns the call whose condition the command has checked, nil for none: it waits for the lock by that command. A
// caller that has left has no use for the result, and its ticket may be another call's.
func (x *exchange) checksFor(alive bool) *waiter {
	if w := x.waiter; w != nil && x.unless != nil && alive && x.answer.err == nil && x.work.tenure.Agent() == &w.Call && w.Outcome == core.Waiting {
		return w
	}
	return nil
}

// checked ends a call whose condition was met, so that its command was not executed. One that has the lock by the command has
// it since the condition was not met.
func (l *lock) checked(w *waiter, met *string, now core.Now) {
	if met == nil {
		w.checked = w.Outcome == core.Acquired
		return
	}
	w.answer, w.checked, w.err = *met, true, terms.ErrAnswered
	l.Leave(&w.Call, core.GotAnswer, now)
}

// clearsTheWay reports a permanent error of a Leave to the TryLock that waits for it: a free lock with a queue has refused its
// attempt, or this client is about to release the lock.
func (l *lock) clearsTheWay(a *answer, now core.Now) {
	for one := range l.Waiters {
		if w := one.Tag.(*waiter); !w.Waits && w.answered(a, &l.shard.client.clock, now.Time) {
			l.Leave(one, core.Failed, now)
		}
		return
	}
}

// A carrier takes commands to Redis, and messages from there. The one of a client is redis (redis.go);
// tests have one whose answers they hold back, lose and reorder.
type carrier interface {
	traits() traits
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

// traits are what the driver has to know of a carrier.
type traits struct {
	patience   time.Duration // how long an Unlock has
	replicated bool          // a grant needs replicas
	cluster    bool          // messages go from node to node
	tracks     bool          // Redis tells of changed keys
}

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
		if invariants {
			r.client.witness.carried(&x.cmd)
		}
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
