package together

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
)

// The operations of a lane that take a lock.
func init() {
	lanes = append(lanes,
		row{"Acquire", 30, nil, drawAcquire, (*caller).acquire},
		row{"Do", 8, nil, drawDo, (*caller).do},
		row{"Lock", 10, nil, drawLock, (*caller).lockAndUnlock},
		row{"Resume", 5, nil, func(g *generator, o *Op) {
			o.Ctx = g.context()
			for _, w := range g.options(Lock{Kind: "plain"}) {
				if w.Name == "WithWait" || w.Name == "WithLease" {
					o.With = append(o.With, w)
				}
			}
			o.add(Choice{Name: "again", N: g.IntN(3)})
			g.body(o, true)
		}, (*caller).resume},
	)
	steps = append(steps,
		row{"nest", 5, nil, nested(func(*generator, *Op) {}), (*caller).acquire},
		row{"nest Do", 1, nil, nested(drawWork), (*caller).do},
		row{"nest Lock", 2, nil, nested(drawMethod), (*caller).lockAndUnlock},
	)
}

func drawAcquire(g *generator, o *Op) {
	o.Lock, o.Ctx = g.anyLock(), g.context()
	o.With = g.options(o.Lock)
	g.body(o, true)
}

func drawDo(g *generator, o *Op) {
	drawAcquire(g, o)
	drawWork(g, o)
}

func drawWork(g *generator, o *Op) {
	o.add(Choice{Name: "work", S: some(g, "returns", "returns", "fails", "panics", "exits")})
}

func drawLock(g *generator, o *Op) {
	drawAcquire(g, o)
	drawMethod(g, o)
}

// drawMethod draws a method that takes a lock without a handle, which has no options but two in their place.
func drawMethod(g *generator, o *Op) {
	method := some(g, "Lock", "LockFor", "TryLock", "TryLockFor")
	o.With = nil
	o.add(Choice{Name: "by", S: method})
	if method == "LockFor" || method == "TryLockFor" {
		o.With = append(o.With, Choice{Name: "WithLease", D: some(g, 0, 150*ms+g.ms(3000))})
	}
	if method == "TryLockFor" {
		o.With = append(o.With, Choice{Name: "WithWait", D: some(g, 0, 5*ms, 200*ms, 2*time.Second)})
	}
}

// nested returns what draws a call that nests in the hold in which it is drawn.
func nested(more func(g *generator, o *Op)) func(g *generator, o *Op) {
	return func(g *generator, o *Op) {
		o.Lock = g.outer.Lock
		if rw := o.Lock.Kind; rw == "read" || rw == "write" {
			o.Lock.Kind = some(g, "read", "write")
		}
		o.With = g.options(o.Lock)
		o.Ctx = Choice{Name: some(g, "timeout", "timeout", "cancelled"), D: some(g, ms, 100*ms, 3*time.Second, 3*time.Second)}
		more(g, o)
		if g.in(3) {
			o.add(Choice{Name: "outlasts", N: 1}) // it is given back after the outer one
		}
		if g.depth < 3 {
			g.body(o, false)
		}
		o.End = g.draw(ends.find("Release"), 0)
	}
}

// lockOf is the lock of an operation: that of the hold in which it nests, whatever lock is left of the program around it.
func (c *caller) lockOf(o *Op) Lock {
	if c.in == nil {
		return o.Lock
	}
	l := c.in.call.lock
	if shares := o.Lock.Kind == "read" || o.Lock.Kind == "write"; shares && (l.Kind == "read" || l.Kind == "write") {
		l.Kind = o.Lock.Kind
	}
	return l
}

// nested is what the caller may nest in; it reports false if a lock does not nest: a goroutine's by a handle, and in the
// context of a hold that is over, which counts no more.
func (c *caller) nested(byLock bool) (outer *grant, may bool) {
	g := c.in
	if g == nil {
		return nil, true
	}
	return g, (byLock || !g.goes) && g.ended == 0 && (!g.root().handles || g.valid())
}

func (c *caller) acquire(o *Op) {
	outer, may := c.nested(false)
	if !may {
		return
	}
	method := history.Acquire
	if w := find(o.With, "WithWait"); w.Name != "" && w.D == 0 {
		method = history.TryAcquire
	}
	l := c.lockOf(o)
	lock := c.lock(l)
	k := c.begin(o, "rlock.Lock.Acquire", method, l, outer, 0)
	c.run.face.call("rlock.Lock.Acquire")
	var hold *rlock.Hold
	var err error
	if !apart(func() { hold, err = lock.Acquire(k.ctx, k.options()...) }) {
		k.vanish()
		return
	}
	if (hold == nil) == (err == nil) {
		c.run.problem("%s returns %v and %v", k, hold, err)
	}
	if hold == nil {
		k.fail(err)
		return
	}
	k.cancel()
	c.use(k.got(hold, hold.Context(), lock), o)
}

// use holds a lock, and gives it back.
func (c *caller) use(g *grant, o *Op) {
	if g.outer != nil {
		g.outer.inner++
	}
	c.inside(g, o.Body)
	if g.outer != nil && o.arg("outlasts").N > 0 && g.hold != nil { // else its owner is that of the outer one's context
		g.outer.later = append(g.outer.later, g)
		return
	}
	c.end(g, o.End)
}

// vanish notes that the call has not returned, since its progress function has ended its goroutine.
func (k *call) vanish() {
	for _, r := range k.records {
		r.End(history.Result{Outcome: history.Failed, Error: "its progress function has not returned"})
	}
	k.seen.vanished = true
	k.cancel()
}

func (c *caller) do(o *Op) {
	outer, may := c.nested(false)
	if !may {
		return
	}
	l := c.lockOf(o)
	lock := c.lock(l)
	k := c.begin(o, "rlock.Lock.Do", history.Do, l, outer, 0)
	c.run.face.call("rlock.Lock.Do")
	var g *grant
	var v *giving
	var err error
	failure := errors.New("the work fails")
	returned := apart(func() {
		in := c.in
		defer func() { c.in = in }()
		err = lock.Do(k.ctx, func(ctx context.Context) error {
			g = k.got(nil, ctx, lock)
			if outer != nil {
				outer.inner++
			}
			c.inside(g, o.Body)
			for _, l := range g.later {
				l.look()
				c.end(l, nil)
			}
			g.later = nil
			v = g.give("rlock.Lock.Do", history.DoEnd, &Op{}, false)
			switch o.arg("work").S {
			case "fails":
				return failure
			case "panics":
				panic(errWork)
			case "exits":
				runtime.Goexit()
			}
			return nil
		}, k.options()...)
	})
	c.in = outer
	switch {
	case g == nil && !returned:
		k.vanish()
	case g == nil:
		k.fail(err)
	case !returned:
		k.cancel()
		v.unknown()
	default:
		k.cancel()
		if o.arg("work").S == "fails" && !errors.Is(err, failure) {
			c.run.problem("%s returns %v, and not the error of its work", k, err)
		}
		v.returned(without(err, failure))
		c.outlived, c.outlivedOwner = g.ctx, ""
	}
}

// without returns what an error is beside another one.
func without(err, part error) error {
	if err == part {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, e := range all.Unwrap() {
			if e != part {
				left = append(left, e)
			}
		}
		return errors.Join(left...)
	}
	return err
}

// lockAndUnlock takes a lock in the name of the goroutine, or of an owner in the context.
func (c *caller) lockAndUnlock(o *Op) {
	outer, may := c.nested(true)
	if !may {
		return
	}
	l, by := c.lockOf(o), o.arg("by").S
	lock := c.lock(l)
	methods := map[string]history.Method{"Lock": history.Lock, "LockFor": history.LockFor, "TryLock": history.TryLock, "TryLockFor": history.TryLockFor}
	k := c.begin(o, "rlock.Lock."+by, methods[by], l, outer, 0)
	c.run.face.call("rlock.Lock." + by)
	lease, wait := find(o.With, "WithLease").D, find(o.With, "WithWait").D
	ok, err := true, error(nil)
	switch by {
	case "Lock":
		err = lock.Lock(k.ctx)
	case "LockFor":
		err = lock.LockFor(k.ctx, lease)
	case "TryLock":
		k.wait = 0
		ok, err = lock.TryLock(k.ctx)
	case "TryLockFor":
		k.wait = wait
		ok, err = lock.TryLockFor(k.ctx, wait, lease)
	}
	if err != nil && ok && (by == "TryLock" || by == "TryLockFor") {
		c.run.problem("%s returns true and %v", k, err)
	}
	if err != nil || !ok {
		k.fail(err)
		return
	}
	// The context of the call ends; what it carries is the owner.
	ctx := context.WithoutCancel(k.ctx)
	k.cancel()
	g := k.got(nil, ctx, lock)
	_, carried := rlock.OwnerFrom(ctx)
	c.run.face.call("rlock.OwnerFrom")
	g.goes = !carried && (outer == nil || outer.goes)
	c.use(g, o)
}

// A parcel is a hold that was passed on.
type parcel struct {
	lock    Lock
	text    string
	token   uint64
	from    string // its owner before
	permits int
	until   time.Duration // it stays until then
	tried   bool          // by a call for it
}

// resume takes a lock that another caller has passed on.
func (c *caller) resume(o *Op) {
	r := c.run
	r.mu.Lock()
	if len(r.parcels) == 0 {
		r.mu.Unlock()
		return
	}
	p := r.parcels[0]
	sure := !p.tried && o.arg("again").N > 0
	if p.tried = true; o.arg("again").N > 0 { // else another one may try it, too
		r.parcels = r.parcels[1:]
	}
	r.mu.Unlock()
	k := c.taking(o, "rlock.Client.Resume", history.Op{Method: history.Acquire, From: p.from, Permits: p.permits}, p.lock, nil, 0)
	if r.face.call("rlock.Client.Resume"); sure {
		k.parcel = p
	}
	ctx := k.ctx
	if o.Ctx.Name == "owner" || o.Ctx.Name == "outlived" {
		ctx, k.cancel = context.WithTimeout(context.WithValue(r.ctx, callKey{}, k), o.Ctx.D)
		k.ctx = ctx
	}
	hold, err := c.m.main().Resume(ctx, p.text, k.options()...)
	if hold == nil {
		k.fail(err)
		return
	}
	k.cancel()
	lock := c.lock(p.lock)
	g := k.got(hold, hold.Context(), lock)
	if token := g.token(); p.lock.Kind == "fenced" && token != p.token {
		r.problem("%s: the token is %d, and was %d before", k, token, p.token)
	}
	c.use(g, o)
}
