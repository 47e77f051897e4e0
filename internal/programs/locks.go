package programs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
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

// drawMethod draws a method that takes a lock without a handle. It has a lease and a wait in place
// of options.
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
			o.add(Choice{Name: "outlasts", N: 1}) // the level is given back after the outer hold
		}
		if g.depth < 3 {
			g.body(o, false)
		}
		o.End = g.draw(ends.find("Release"), 0)
	}
}

// lockOf is the lock of an operation: that of the hold in which it nests, whatever lock is left of
// the program around it.
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

// takes begins a call for the lock of an operation, which nests in what the caller holds; nil if it
// does not: a goroutine's lock by a handle, and in the context of a hold that is over, which counts
// no more.
func (c *caller) takes(o *Op, verb string, byLock bool) (*call, *rlock.Lock) {
	if g := c.in; g != nil && (g.goes && !byLock || g.ended > 0 || g.root().handles && !g.valid()) {
		return nil, nil
	}
	l := c.lockOf(o)
	lock := c.m.lock(l)
	return c.begin(o, verb, history.Op{}, l, c.in), lock
}

func (c *caller) acquire(o *Op) {
	k, lock := c.takes(o, "rlock.Lock.Acquire", false)
	if k == nil {
		return
	}
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
	if g.outer != nil && o.arg("outlasts").N > 0 && g.hold != nil { // else its owner is the owner of the outer hold's context
		g.outer.later = append(g.outer.later, g)
		return
	}
	c.end(g, o.End)
}

// vanish notes that the call has not returned, since its progress function has ended its goroutine.
func (k *call) vanish() {
	k.record.End(history.Result{Outcome: history.Failed, Error: "its progress function has not returned"})
	k.seen.vanished = true
	k.takeover.returns(false)
	k.cancel()
}

func (c *caller) do(o *Op) {
	outer := c.in
	k, lock := c.takes(o, "rlock.Lock.Do", false)
	if k == nil {
		return
	}
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
			v = g.give("rlock.Lock.Do", &Op{}, false)
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
		if err == failure { // and no error of the release is joined to it
			err = nil
		}
		v.returned(err)
		c.outlived, c.outlivedOwner = g.ctx, ""
	}
}

// lockAndUnlock takes a lock in the name of the goroutine, or of an owner in the context.
func (c *caller) lockAndUnlock(o *Op) {
	by := o.arg("by").S
	k, lock := c.takes(o, "rlock.Lock."+by, true)
	if k == nil {
		return
	}
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
	// The context of the call ends; the owner that it carries does not.
	ctx := context.WithoutCancel(k.ctx)
	k.cancel()
	g := k.got(nil, ctx, lock)
	_, carried := on(c.run.face, rlock.OwnerFrom)(ctx)
	g.goes = !carried && (k.outer == nil || k.outer.goes)
	c.use(g, o)
}

// A parcel is a hold that was passed on.
type parcel struct {
	lock    Lock
	text    string
	token   uint64
	from    string // the owner that has passed it on
	permits int
	passed  time.Duration // the time at which it was passed on
	until   time.Duration // the time until which the lock stays
	tried   bool          // a call has tried to resume it
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
	if p.tried = true; o.arg("again").N > 0 { // else another call may try it, too
		r.parcels = r.parcels[1:]
	}
	r.mu.Unlock()
	k := c.begin(o, "rlock.Client.Resume", history.Op{From: p.from, Passed: history.At(r.begin.Add(p.passed)), Permits: p.permits}, p.lock, nil)
	if sure {
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
	lock := c.m.lock(p.lock)
	g := k.got(hold, hold.Context(), lock)
	if token := g.token(); p.lock.Kind == "fenced" && token != p.token {
		r.problem("%s: the token is %d, and was %d before", k, token, p.token)
	}
	c.use(g, o)
}

// Clients of Redisson that only poll, as spin locks and loops of tryLock do. They are scripts,
// without nested levels. Where a fault from outside takes a right, such a script is executed in
// part, and leaves a lock without an end.
func init() {
	lanes = append(lanes, row{"guest", 2, func(w *World) bool { return !w.Outside }, func(g *generator, o *Op) {
		o.Lock = some(g, Lock{"plain", "p"}, Lock{"plain", "q"}, Lock{"write", "rw"}, Lock{"read", "rw"})
		o.add(Choice{Name: "polls", N: 1 + g.IntN(20)})
		o.add(Choice{Name: "for", D: g.ms(some(g, 5, 60))})
		o.add(Choice{Name: "publishes", N: g.IntN(2)})
	}, (*caller).guest})
}

const (
	guestTakes = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		return redis.call('pexpire', KEYS[1], 3000)`
	guestWrites = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
		return redis.call('pexpire', KEYS[1], 3000)`
	guestReads = `
		if redis.call('hget', KEYS[1], 'mode') == 'write' then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
		redis.call('set', ARGV[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:1', 1, 'px', 3000)
		return redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), 3000))`
	// As in Redisson, the lock has the longest lease of the readers that go on.
	guestLeaves = `
		if redis.call('hdel', KEYS[1], ARGV[1], ARGV[1] .. ':write') == 0 then
			return 0
		end
		redis.call('del', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:1')
		local longest = 0
		for _, reader in ipairs(redis.call('hkeys', KEYS[1])) do
			longest = math.max(longest, redis.call('pttl', ARGV[3] .. ':' .. reader .. ':rwlock_timeout:1'))
		end
		if longest > 0 then
			return redis.call('pexpire', KEYS[1], longest)
		end
		redis.call('del', KEYS[1])
		return ARGV[2] == '' and 0 or redis.call('publish', ARGV[2], '0')`
)

// guest polls for a lock, and holds it for a while.
func (c *caller) guest(o *Op) {
	r, a := c.run, c.run.admin[0]
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	key, owner := r.program.World.Prefix+o.Lock.Name, fmt.Sprintf("4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:%d", o.ID)
	tagged := "{" + key + "}"
	if strings.Contains(key, "{") {
		tagged = key // as in Redisson's prefixName and suffixName
	}
	takes, channel := guestTakes, "redisson_lock__channel:"+tagged
	switch o.Lock.Kind {
	case "write":
		takes, channel = guestWrites, "redisson_rwlock:"+tagged
	case "read":
		takes, channel = guestReads, "redisson_rwlock:"+tagged
	}
	if o.arg("publishes").N == 0 {
		channel = ""
	}
	for range o.arg("polls").N {
		got, err := a.Do(ctx, a.B().Eval().Script(takes).Numkeys(1).Key(key).Arg(owner, tagged).Build()).AsInt64()
		if err != nil {
			return
		}
		if got == 0 {
			time.Sleep(40 * ms)
			continue
		}
		r.face.call("guest")
		op := history.Op{Method: "guest", Names: o.Lock.names(), Owner: owner, Lease: 3 * time.Second, Shared: o.Lock.Kind == "read"}
		record := c.m.recorder.Begin(op)
		record.End(history.Result{Outcome: history.Acquired, Until: history.At(time.Now().Add(o.arg("for").D))})
		from := r.now()
		time.Sleep(o.arg("for").D)
		record.Gives(history.Now())
		if err := a.Do(ctx, a.B().Eval().Script(guestLeaves).Numkeys(1).Key(key).Arg(owner, channel, tagged).Build()).Error(); err != nil {
			record.Gave(history.Result{Outcome: history.Unconfirmed})
			return // the lock ends with its lease
		}
		record.Gave(history.Result{Outcome: history.Released})
		r.apart(o.Lock, from, r.now()+looks) // it may have sent no message
		return
	}
}
