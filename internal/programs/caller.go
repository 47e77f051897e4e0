package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A caller is the goroutine of a lane.
type caller struct {
	run    *Run
	lane   int
	slot   *slot
	m      *member     // the client of the operation
	in     *grant      // the innermost level that it holds; nil for none
	owner  rlock.Owner // the owner that its contexts may carry
	random *rand.Rand  // the source of values that a program need not repeat

	outlived      context.Context // the context of its last hold, which is over; nil for none
	outlivedOwner string          // the owner in that context
}

// perform waits for the time of an operation, and runs it.
func (c *caller) perform(o *Op) {
	time.Sleep(o.After)
	c.m = c.slot.Load()
	lanes.find(o.Verb).run(c, o)
}

func (m *member) lock(l Lock) *rlock.Lock {
	face, client := m.run.face, m.main()
	switch l.Kind {
	case "plain":
		return on(face, client.NewLock)(l.Name)
	case "fenced":
		return on(face, client.NewFencedLock)(l.Name)
	case "fair":
		return on(face, client.NewFairLock)(l.Name)
	case "write":
		return on(face, on(face, client.NewReadWriteLock)(l.Name).Write)()
	case "read":
		return on(face, on(face, client.NewReadWriteLock)(l.Name).Read)()
	case "semaphore":
		return on(face, client.NewSemaphore)(l.Name, Permits)
	case "red":
		return on(face, rlock.NewRedLock)(m.clients, l.Name)
	case "multi":
		var parts []*rlock.Lock
		for _, name := range l.names() {
			kind := "plain"
			switch name {
			case "rw":
				kind = "write"
			case red:
				kind = "red"
			}
			parts = append(parts, m.lock(Lock{kind, name}))
		}
		return on(face, rlock.NewMultiLock)(parts...)
	}
	panic("programs: no kind " + l.Kind)
}

// A call is one call that takes a lock.
type call struct {
	c     *caller
	m     *member
	o     *Op
	verb  string // the method, as in Face
	lock  Lock
	outer *grant // the level of the same owner in which it nests; nil for none
	owner string // the owner's name in the history

	ctx      context.Context
	cancel   context.CancelFunc
	ends     time.Duration // when ctx ends
	began    time.Duration
	record   *history.Call
	wait     time.Duration // the longest wait that it asked for; negative for none
	pauses   time.Duration // how long its progress function has blocked
	permits  int           // the permits of the semaphore
	asked    int           // the permits that it asks for
	parcel   *parcel       // the hold that it resumes; nil for none
	shares   bool          // it reads, or takes permits
	seen     sight
	hosts    bool      // levels nest in it
	takeover *takeover // nil if it waits for its turn
}

type callKey struct{}

// noWait is the wait of a call without a limit of its own.
const noWait time.Duration = -1

// begin notes that a call for a lock begins. The history knows more of a call that resumes a hold.
func (c *caller) begin(o *Op, verb string, op history.Op, l Lock, outer *grant) *call {
	c.run.face.call(verb)
	k := &call{c: c, m: c.m, o: o, verb: verb, lock: l, outer: outer, wait: noWait, permits: op.Permits}
	id := c.run.number()
	k.owner = fmt.Sprintf("%s/%d#%d", c.m.name, c.lane, id)
	base := c.run.ctx
	switch {
	case outer != nil:
		base, k.owner = outer.ctx, outer.call.owner
	case o.Ctx.Name == "owner":
		base, k.owner = on(c.run.face, rlock.WithOwner)(base, c.owner), fmt.Sprintf("%s/%d@%d", c.m.name, c.lane, c.owner)
	case o.Ctx.Name == "outlived" && c.outlived != nil:
		base = context.WithoutCancel(c.outlived)
		if c.outlivedOwner != "" {
			k.owner = fmt.Sprintf("%s/%d%s", c.m.name, c.lane, c.outlivedOwner)
		}
	}
	k.began = c.run.now()
	k.ends = k.began + o.Ctx.D
	base = context.WithValue(base, callKey{}, k)
	switch o.Ctx.Name {
	case "cancelled":
		k.ctx, k.cancel = context.WithCancel(base)
		stop, timer := k.cancel, time.AfterFunc(o.Ctx.D, k.cancel)
		k.cancel = func() { timer.Stop(); stop() }
	case "ended":
		k.ctx, k.cancel = context.WithCancel(base)
		k.cancel()
	default:
		k.ctx, k.cancel = context.WithTimeout(base, o.Ctx.D)
	}
	k.asked = max(find(o.With, "WithPermits").N, 1)
	k.shares = l.Kind == "read" || l.Kind == "semaphore"
	if l.Kind == "semaphore" && k.permits == 0 {
		k.permits = k.asked
		if outer != nil && outer.valid() { // else it begins a hold of its own
			k.permits = outer.call.permits
		}
	}
	op.Method, op.Owner, op.Shared = verb, k.owner, k.shares
	if op.Permits = k.permits; op.Permits > 0 {
		op.Of = Permits
	}
	op.Lease, op.Kept = c.run.program.World.Lease, true
	if d := cmp.Or(find(o.With, "WithMaxHold").D, find(o.With, "WithLease").D); d > 0 {
		op.Lease, op.Kept = d, o.moves(l)
	}
	if w := find(o.With, "WithWait"); w.Name != "" {
		k.wait = w.D
	}
	if !c.run.ground.Virtual && find(o.With, "WithProgress").S != "blocks" { // else judgeWait judges it, or it may outlast its context
		op.Ends = history.At(c.run.begin.Add(k.ends))
	}
	if !l.red() || outer == nil { // each level of a red lock has parts of its own, and may be lost alone
		op.Names = l.names()
	}
	k.record = c.m.recorder.Begin(op)
	if l.group() {
		c.run.mu.Lock()
		c.m.observed.overSeveral = true
		c.run.mu.Unlock()
	}
	for _, w := range o.With {
		c.run.face.call("rlock." + w.Name)
	}
	c.run.face.pairs(o.With)
	k.takes()
	return k
}

// moves reports whether a step of the operation, or of one nested in it, moves the end of its hold.
// So does each level of a red lock, which is not in the history.
func (o *Op) moves(l Lock) bool {
	for _, s := range o.Body {
		if s.Verb == "Extend" || l.red() && (s.Verb == "elsewhere" || strings.HasPrefix(s.Verb, "nest")) || s.moves(l) {
			return true
		}
	}
	return false
}

func (k *call) options() (all []rlock.AcquireOption) {
	for _, w := range k.o.With {
		for _, o := range options {
			if o.name == w.Name {
				all = append(all, o.make(k, w))
			}
		}
	}
	return all
}

// blocked is the time for which a progress function blocks.
const blocked = 300 * ms

// errProgress is the panic of a progress function.
var errProgress = errors.New("a progress function panics")

// progress returns a progress function that returns, blocks for a while, panics or exits.
func (k *call) progress(how string) func(place, waiting int) {
	return func(place, waiting int) {
		if place < 1 || waiting < place {
			k.c.run.problem("%s: place %d of %d", k, place, waiting)
		}
		k.c.run.face.call("progress that " + how)
		switch how {
		case "blocks":
			k.pauses += blocked
			time.Sleep(blocked)
			k.c.run.apart(k.lock, k.c.run.now()-blocked, k.c.run.now()) // it may have been granted before
		case "panics":
			panic(errProgress)
		case "exits":
			runtime.Goexit()
		}
	}
}

func (k *call) String() string {
	return fmt.Sprintf("%s of %s by %s (operation %s)", k.verb, k.lock.Name, k.owner, k.o)
}

// apart runs f in a goroutine of its own, and reports whether f returned: it survives the panic of
// a progress function, and the exit of the goroutine.
func apart(f func()) (returned bool) {
	done := make(chan any, 1)
	go func() {
		defer func() {
			p := recover()
			if err, ok := p.(error); ok && (errors.Is(err, errProgress) || errors.Is(err, errWork)) {
				p = nil
			}
			done <- p
		}()
		f()
		returned = true
	}()
	if p := <-done; p != nil {
		panic(p)
	}
	return returned
}

// errWork is the panic of a function of Do.
var errWork = errors.New("the work panics")

// fail notes that the call has returned without a lock.
func (k *call) fail(err error) {
	outcome := history.Failed
	switch {
	case k.verb == "rlock.Client.Resume": // it wants no lock that is free
	case err == nil, errors.Is(err, rlock.ErrNotAcquired):
		outcome = history.Refused
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		outcome = history.Cancelled
	}
	k.record.End(history.Result{Outcome: outcome, Error: fmt.Sprint(err)})
	k.takeover.returns(false)
	if h, ok := on(k.c.run.face, inspect.HolderOf)(err); ok && h.Owner == "" {
		k.c.run.problem("%s: the error knows a holder without an owner: %v", k, err)
	}
	k.judgeError(err)
	k.judgeWait(err)
	k.cancel()
	k.waited()
}

// waited notes that a call for a lock over several may have had one part while it waited for
// another.
func (k *call) waited() {
	if k.lock.group() {
		k.c.run.apart(k.lock, k.began, k.c.run.now())
	}
}

// got notes that the call has returned with the lock.
func (k *call) got(hold *rlock.Hold, ctx context.Context, l *rlock.Lock) *grant {
	r := k.c.run
	g := &grant{call: k, hold: hold, lock: l, ctx: ctx, since: r.now(), outer: k.outer}
	k.judgeGrant(g)
	result := history.Result{Outcome: history.Acquired, Watched: hold != nil}
	if hold != nil {
		result.Until = history.At(hold.ValidUntil())
	}
	result.Count = g.count()
	if k.lock.Kind == "fenced" && k.verb != "rlock.Client.Resume" {
		result.Token = g.token()
	}
	k.record.End(result)
	if hold != nil {
		context.AfterFunc(hold.Context(), g.noteEnd)
	}
	k.takeover.returns(true)
	k.judgeWait(nil)
	k.waited()
	r.mu.Lock()
	r.grants = append(r.grants, g)
	r.mu.Unlock()
	g.askWanted()
	g.look()
	return g
}

// token returns the fencing token, 0 if the hold is over or has none.
func (g *grant) token() uint64 {
	r, token, err := g.run(), uint64(0), error(nil)
	if g.hold == nil {
		token, err = on(r.face, g.lock.Token)(g.ctx)
	} else if token, err = on(r.face, g.hold.Token)(); err != nil && !errors.Is(err, rlock.ErrNoToken) {
		r.problem("%s: the token of a hold: %v", g.call, err)
	}
	if err == nil && (token == 0 || g.call.lock.Kind != "fenced") {
		r.problem("%s: the token is %d", g.call, token)
	}
	return token
}
