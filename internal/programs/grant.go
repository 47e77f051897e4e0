package programs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
)

// A grant is a level of a lock that a caller got.
type grant struct {
	call  *call
	hold  *rlock.Hold // nil without a handle
	lock  *rlock.Lock
	ctx   context.Context // the context in which calls nest in it
	outer *grant          // nil for the outermost
	goes  bool            // the level belongs to a goroutine, so that only Lock nests in it
	since time.Duration

	held    bool // the level was valid at a look
	later   []*grant
	inner   int           // the number of open levels in it
	moved   bool          // Extend has moved its end
	lasts   time.Duration // the end to which Extend has moved it; 0 for none
	derived []context.Context
	ended   time.Duration // when it was given back; 0 for not yet
	endedBy error

	// The fields below are written by noteEnd, and read when noteEnd has returned.
	over  time.Duration // when its context ended
	cause error

	// The fields below belong to the outermost level, and are about all levels of its owner.
	open        int           // the number of levels that are not given back
	handles     bool          // a level has a handle
	nested      bool          // there were several levels
	limited     bool          // a level has a lease or a MaxHold
	longest     time.Duration // the longest lease or least hold that a level has asked for; 0 for none
	least, most time.Duration // the earliest and the latest end of the lock's stay after its last level; 0 for none
}

func (g *grant) run() *Run { return g.call.c.run }

// valid reports whether the client says that the lock is held.
func (g *grant) valid() bool {
	if g.hold != nil {
		return on(g.run().face, g.hold.Valid)()
	}
	return on(g.run().face, g.lock.IsHeld)(g.ctx)
}

// count returns the number of the owner's levels, 0 if it is not known: of a lock over several the
// parts count, and a call without a handle is not told of the levels of handles.
func (g *grant) count() int {
	if g.call.lock.group() || g.hold == nil && g.root().handles {
		return 0
	}
	return on(g.run().face, g.lock.HoldCount)(g.ctx)
}

// look notes whether the lock is held, and reports it.
func (g *grant) look() bool {
	r := g.run()
	var held bool
	look := func() history.Belief {
		held = g.valid()
		g.held = g.held || held
		b := history.Belief{Held: held}
		if g.hold != nil {
			until := on(r.face, g.hold.ValidUntil)()
			b.Held, b.Until = !until.IsZero(), history.At(until)
			if b.Held && r.ground.Virtual && time.Now().After(until) {
				r.problem("%s: it is valid until %v ago", g.call, time.Since(until))
			}
		}
		b.Count = g.count()
		return b
	}
	g.call.record.Look(look)
	if held {
		g.judgeLength()
	}
	return held
}

// askWanted lets some holds ask whether other owners wait: from then on renewals ask for waiters.
func (g *grant) askWanted() {
	if r := g.run(); g.hold != nil && g.call.o.ID%4 == 0 {
		if on(r.face, g.hold.Wanted)() != on(r.face, rlock.Wanted)(on(r.face, g.hold.Context)()) {
			r.problem("%s: its context has another channel", g.call)
		}
	}
}

// noteEnd notes the end of the hold's context. The history comes first: mutexes may be late (see
// checker.Options.Noted).
func (g *grant) noteEnd() {
	r := g.run()
	over, cause := r.now(), context.Cause(g.hold.Context())
	if errors.Is(cause, rlock.ErrLost) {
		g.call.record.Told()
	}
	r.mu.Lock()
	g.over, g.cause = max(over, 1), cause
	r.mu.Unlock()
	g.judgeCause()
}

// inside does what a caller does while it holds the lock.
func (c *caller) inside(g *grant, body []*Op) {
	outer := c.in
	c.in = g
	for _, o := range body {
		g.look()
		steps.find(o.Verb).run(c, o)
	}
	g.look()
	c.in = outer
}

// end gives the level of the current grant back by a row of ends, and then the levels that outlast
// it.
func (c *caller) end(g *grant, o *Op) {
	outer := c.in
	c.in = g
	if o == nil {
		o = &Op{Verb: "Release"}
	}
	switch {
	case g.hold == nil:
		g.unlock(o)
	default:
		ends.find(o.Verb).run(c, o)
	}
	c.in = outer
	for _, l := range g.later {
		l.look()
		c.end(l, nil)
	}
	if g.outer == nil {
		c.outlived, c.outlivedOwner = g.ctx, ""
		if g.call.o.Ctx.Name == "owner" {
			c.outlivedOwner = fmt.Sprintf("@%d", c.owner)
		}
	}
}

// A giving is the way in which a level is given back.
type giving struct {
	grant *grant
	verb  string
	ctx   context.Context
	began time.Duration
	at    history.Time
	late  bool // the call is recorded after its return, when it is known whether it gives the level back
}

// give notes that a level is about to be given back.
func (g *grant) give(verb string, o *Op, late bool) *giving {
	r := g.run()
	g.look()
	r.face.call(verb)
	v := &giving{grant: g, verb: verb, began: r.now(), at: history.Now(), late: late}
	v.ctx = context.WithValue(g.ctx, callKey{}, g.call)
	if g.hold != nil {
		v.ctx = context.WithValue(r.ctx, callKey{}, g.call)
	}
	if o.Ctx.Name == "ended" {
		ended, cancel := context.WithCancel(v.ctx)
		cancel()
		v.ctx = ended
	}
	r.mu.Lock()
	g.call.seen.gives, g.call.seen.gave = verb, v.began
	r.mu.Unlock()
	if !late {
		g.call.record.Gives(v.at)
	}
	return v
}

// unknown notes that the level was given back by a call that has not returned, so that its result
// is unknown.
func (v *giving) unknown() {
	g := v.grant
	if g.outer != nil { // the levels are counted even so
		result := history.Result{Outcome: history.Lost}
		if g.outer.valid() {
			result.Outcome = history.Released
		}
		g.call.record.Gave(result)
	}
	g.call.seen.vanished = true
	g.close(nil)
	v.stays(true)
}

// close notes that the level is over.
func (g *grant) close(err error) {
	r := g.run()
	r.mu.Lock()
	r.held--
	r.mu.Unlock()
	g.ended, g.endedBy = r.now(), err
	g.root().open--
	if g.outer != nil {
		g.outer.inner--
	}
}

// returned notes that the level was given back.
func (v *giving) returned(err error) {
	g, r := v.grant, v.grant.run()
	outcome := history.Failed
	switch {
	case err == nil:
		outcome = history.Released
	case errors.Is(err, rlock.ErrLost):
		outcome = history.Lost
	case errors.Is(err, rlock.ErrUnconfirmed):
		outcome = history.Unconfirmed
	case errors.Is(err, rlock.ErrNotHeld) && g.hold == nil && g.root().handles && (g.call.lock.red() || !g.root().valid()):
		// The context of a lost hold gives no rights any more, and its handle reports the loss.
		outcome, err = history.Lost, fmt.Errorf("%w: %w", rlock.ErrLost, err)
	case errors.Is(err, rlock.ErrNotHeld):
		outcome = history.NotHeld
	}
	if v.late {
		g.call.record.Gives(v.at)
	}
	result := history.Result{Outcome: outcome}
	if err != nil {
		result.Error = err.Error()
	}
	g.close(err)
	if until := v.stays(v.late); err == nil && until > 0 {
		result.Until = history.At(r.begin.Add(until))
	}
	g.call.record.Gave(result)
	v.judge(err)
}

// release gives the level of a handle back.
func (g *grant) release(o *Op) {
	v := g.give("rlock.Hold.Release", o, false)
	v.returned(g.hold.Release(v.ctx))
}

// unlock gives a level without a handle back.
func (g *grant) unlock(o *Op) {
	v := g.give("rlock.Lock.Unlock", o, false)
	v.returned(g.lock.Unlock(v.ctx))
}
