package programs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// The steps while a lock is held, and the ends of a hold.
func init() {
	steps = append(steps,
		row{"pause", 8, nil, func(g *generator, o *Op) { o.add(Choice{Name: "for", D: g.ms(some(g, 5, 60, 1200))}) }, (*caller).pause},
		row{"Extend", 2, nil, func(g *generator, o *Op) { o.add(Choice{Name: "to", D: some(g, ms, 50*ms+g.ms(2500))}) }, (*caller).extend},
		row{"Write", 3, nil, func(g *generator, o *Op) { o.Ctx = g.brief() }, (*caller).write},
		row{"Exec", 2, nil, func(g *generator, o *Op) { o.Ctx = g.brief() }, (*caller).exec},
		row{"With", 1, nil, nil, (*caller).with},
		row{"elsewhere", 2, nil, nil, (*caller).elsewhere},
		row{"refused", 1, nil, nil, (*caller).refused},
		row{"shown", 3, nil, nil, (*caller).shown},
	)
	ends = append(ends,
		row{"Release", 14, nil, drawEnd, func(c *caller, o *Op) { c.in.release(o) }},
		row{"ReleaseWith", 4, nil, drawEnd, (*caller).releaseWith},
		row{"Pass", 3, nil, func(g *generator, o *Op) {
			drawEnd(g, o)
			o.add(Choice{Name: "within", D: 100*ms + g.ms(4000)})
		}, (*caller).pass},
	)
}

func drawEnd(g *generator, o *Op) {
	if g.in(4) {
		o.Ctx = Choice{Name: "ended"}
	}
}

// brief draws the context of a call within a hold.
func (g *generator) brief() Choice {
	return Choice{Name: "timeout", D: some(g, 5*ms, 500*ms, 5*time.Second, 5*time.Second)}
}

func (c *caller) pause(o *Op) {
	if c.in.hold == nil {
		time.Sleep(o.arg("for").D)
		return
	}
	select {
	case <-c.in.hold.Context().Done():
	case <-time.After(o.arg("for").D):
	}
}

// ends reports whether the end of the hold can be moved.
func (g *grant) ends() bool {
	return find(g.call.o.With, "WithLease").D > 0 || find(g.call.o.With, "WithMaxHold").D > 0
}

func (c *caller) extend(o *Op) {
	g, d := c.in, o.arg("to").D
	if g.hold == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, 5*time.Second)
	defer cancel()
	valid := g.valid()
	c.run.mu.Lock()
	again := g.moved
	g.moved, g.lasts = true, 0 // the new end may be sooner than the end of an earlier Extend
	g.root().longest = max(g.root().longest, d)
	c.run.mu.Unlock()
	began := c.run.now()
	err := on(c.run.face, g.hold.Extend)(ctx, d)
	switch refused := !g.ends() || d < 25*ms; {
	case err == nil && !refused, errors.Is(err, rlock.ErrInvalidLease) && refused:
	case errors.Is(err, rlock.ErrLost), errors.Is(err, rlock.ErrNotHeld):
	case errors.Is(err, rlock.ErrClosed) && g.call.m.closes.Load():
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case errors.Is(err, errors.ErrUnsupported) && g.call.lock.group():
	default:
		c.run.problem("%s: Extend of a hold (valid before: %v) returns %v", g.call, valid, err)
	}
	if err == nil && g.outer == nil && g.inner == 0 && !again {
		g.extended(c.run.now(), began+d)
		if leased := find(g.call.o.With, "WithLease").D > 0; leased && c.run.sane() && g.call.permits == 0 {
			left, err := g.lock.TTL(ctx)
			if ends := c.run.now() + left; err == nil && g.valid() && ends+c.run.slack() < began+d {
				c.run.problem("%s: Extend has moved its end to %v, and Redis shows %v", g.call, began+d, ends)
			}
		}
	}
}

// key returns the key of data beside the lock. A lock over several has none, and refuses guarded
// writes.
func (g *grant) key(name string) string {
	if g.call.lock.group() {
		return name
	}
	return on(g.run().face, g.lock.Key)(name)
}

// guarded makes a guarded call of the hold by do, which gets a key in the slot of the lock. Once
// the hold is over, the call must be refused.
func (c *caller) guarded(o *Op, verb, name string, do func(ctx context.Context, key string) error) {
	g := c.in
	if g.hold == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.run.ctx, o.Ctx.D)
	defer cancel()
	c.run.face.call(verb)
	key, valid := g.key(name), g.valid()
	c.judgeGuarded(g, verb, do(ctx, key), ctx, valid)
}

func (c *caller) write(o *Op) {
	g := c.in
	c.guarded(o, "rlock.Hold.Write", "log", func(ctx context.Context, key string) error {
		root := g.root().call
		entry := fmt.Sprintf("%s!%d|%s", root.owner, root.o.ID, o)
		_, err := g.hold.Write(ctx, []string{key}, []string{"RPUSH", key, entry})
		g.noteWrite(entry, err)
		return err
	})
}

// counted adds one to a number beside the lock.
const counted = "return redis.call('incr', KEYS[1])"

func (c *caller) exec(o *Op) {
	g := c.in
	c.guarded(o, "rlock.Hold.Exec", "v", func(ctx context.Context, key string) error {
		reply, err := g.hold.Exec(ctx, counted, []string{key}, nil)
		g.noteCount(err)
		if err == nil {
			if n, err := reply.AsInt64(); err != nil || n < 1 {
				c.run.problem("%s: Exec returns %v, %v", g.call, n, err)
			}
		}
		return err
	})
}

// with makes a context from another one, which must end with the hold.
func (c *caller) with(*Op) {
	if c.in.hold == nil {
		return
	}
	ctx, cancel := context.WithCancel(c.run.ctx)
	derived := on(c.run.face, c.in.hold.With)(ctx)
	c.in.derived = append(c.in.derived, derived)
	if c.lane%2 == 0 {
		cancel()
		if derived.Err() == nil {
			c.run.problem("%s: a context of With outlives that which it was made from", c.in.call)
		}
	} else {
		time.AfterFunc(time.Hour, cancel) // for vet only: the hold ends before
		context.AfterFunc(derived, cancel)
	}
}

// elsewhere nests in another goroutine, by the context of the hold.
func (c *caller) elsewhere(*Op) {
	g := c.in
	if g.goes {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithValue(g.ctx, callKey{}, nil), 100*ms)
		defer cancel()
		valid := g.valid()
		if err := g.lock.Lock(ctx); err == nil {
			if err := g.lock.Unlock(ctx); err != nil && !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrClosed) && c.run.sane() {
				c.run.problem("%s: an Unlock of a level in another goroutine: %v", g.call, err)
			}
		} else if valid && g.valid() && ctx.Err() == nil && !g.call.m.closes.Load() && !c.run.unserved(g.call.m) {
			c.run.problem("%s: a level in another goroutine: %v", g.call, err)
		}
	}()
	<-done
}

// refused makes calls that a level of several, and a lock over several, must refuse.
func (c *caller) refused(*Op) {
	g := c.in
	if g.hold == nil || g.outer == nil && !g.call.lock.group() {
		return
	}
	if g.count() == 1 { // the lease of the outer level is over, and this one has taken the lock anew
		return
	}
	_, err := g.hold.Pass(c.run.ctx, time.Second)
	if !c.run.face.error(err, "rlock.ErrPass", rlock.ErrPass) && !errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrClosed) {
		c.run.problem("%s: Pass of a level of several returns %v", g.call, err)
	}
}

func (c *caller) releaseWith(o *Op) {
	g := c.in
	if g.call.lock.group() {
		if _, err := g.hold.ReleaseWith(c.run.ctx, counted, []string{g.key("v")}, nil); !errors.Is(err, errors.ErrUnsupported) && g.valid() {
			c.run.problem("%s: ReleaseWith of a lock over several returns %v", g.call, err)
		}
		g.release(o)
		return
	}
	key := g.key("v")
	v := g.give("rlock.Hold.ReleaseWith", o, false)
	_, err := g.hold.ReleaseWith(v.ctx, counted, []string{key}, nil)
	g.noteCount(err)
	v.returned(err)
}

func (c *caller) pass(o *Op) {
	g := c.in
	if g.outer != nil || g.inner > 0 || len(g.later) > 0 || g.call.lock.group() {
		g.release(o)
		return
	}
	token := uint64(0)
	if g.call.lock.Kind == "fenced" {
		token = g.token()
	}
	v := g.give("rlock.Hold.Pass", o, true)
	text, err := g.hold.Pass(v.ctx, o.arg("within").D)
	if errors.Is(err, rlock.ErrLost) {
		_ = g.hold.Release(c.run.ctx) // Pass changes nothing if the hold was over before
	}
	if errors.Is(err, rlock.ErrPass) {
		if g.call.lock.Kind != "read" { // others may read in this process
			c.run.problem("%s: Pass of the only level returns %v", g.call, err)
		}
		g.release(o)
		return
	}
	v.returned(err)
	if err != nil {
		return
	}
	r := c.run
	p := &parcel{lock: g.call.lock, text: text, token: token, from: g.call.owner, permits: g.call.permits, passed: v.began, until: v.began + o.arg("within").D}
	r.mu.Lock()
	r.parcels = append(r.parcels, p)
	r.mu.Unlock()
	r.apart(g.call.lock, v.began, r.now()+o.arg("within").D+looks)
}
