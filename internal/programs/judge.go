package programs

import (
	"context"
	"errors"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// The judgement of what callers are told: errors, waits, and the ends of holds.

// sane reports whether nothing breaks in this program.
func (r *Run) sane() bool { return r.program.World.Calm }

// healed reports whether no fault has an effect any more.
func (r *Run) healed() bool { return r.sane() || r.whole.Load() }

// unserved reports whether the client may be refused for reasons other than the call's own.
func (r *Run) unserved(m *member) bool { return !r.sane() || m.setting.replicated() }

// judgeError judges the error of a call that did not get the lock; nil means that the method
// returned false.
func (k *call) judgeError(err error) {
	r := k.c.run
	if len(refused(k.lock, k.o.With)) == 0 {
		k.judgeGivenUp(err)
	}
	if why := k.explains(err); why == "" {
		r.problem("%s returns %v", k, err)
	} else {
		r.face.call("error " + why)
	}
}

// failures are the errors that a call may return, and when: the first that an error is decides.
var failures = []struct {
	name string
	is   error
	may  func(k *call, err error) bool
}{
	{"rlock.ErrTooManyWaiters", rlock.ErrTooManyWaiters, func(k *call, err error) bool {
		return k.o.has("WithMaxWaiters") && errors.Is(err, rlock.ErrNotAcquired)
	}},
	{"rlock.ErrNotPassed", rlock.ErrNotPassed, func(k *call, _ error) bool {
		r := k.c.run
		return k.verb == "rlock.Client.Resume" && (k.parcel == nil || !r.sane() || r.now() > k.parcel.until-r.slack() || r.mayBeForced(k.parcel.lock))
	}},
	{"rlock.ErrNotAcquired", rlock.ErrNotAcquired, func(k *call, _ error) bool { return k.wait >= 0 && !k.answers() }},
	{"rlock.ErrUpgrade", rlock.ErrUpgrade, func(k *call, _ error) bool {
		return k.outer != nil && (k.lock.Kind == "write" || k.o.has("WithPermits"))
	}},
	{"rlock.ErrClosed", rlock.ErrClosed, func(k *call, _ error) bool { return k.m.closes.Load() }},
	{"rlock.ErrHeldTooLong", rlock.ErrHeldTooLong, func(k *call, _ error) bool { return k.outer != nil && k.outer.root().limited }},
	{"rlock.ErrLost", rlock.ErrLost, func(k *call, _ error) bool {
		return k.outer != nil && (!k.c.run.sane() || k.outer.mayEnd())
	}},
	{"rlock.ErrNoPermission", rlock.ErrNoPermission, func(k *call, _ error) bool { return k.c.run.barred.Load() }},
}

// answers reports whether the method returns false in place of an error.
func (k *call) answers() bool {
	return k.verb == "rlock.Lock.TryLock" || k.verb == "rlock.Lock.TryLockFor"
}

// explains names the documented error that err is, if the call may return it in its situation; else
// it returns "".
func (k *call) explains(err error) string {
	for _, refusal := range refused(k.lock, k.o.With) {
		if errors.Is(err, refusal) {
			return refusalNames[refusal]
		}
	}
	for _, f := range failures {
		if errors.Is(err, f.is) {
			if f.may(k, err) {
				return f.name
			}
			return ""
		}
	}
	switch r := k.c.run; {
	case err == nil:
		if k.wait >= 0 && k.answers() {
			return "false"
		}
	case k.ctx.Err() != nil && errors.Is(err, k.ctx.Err()):
		return "context"
	case errors.Is(err, rlock.ErrNotReplicated):
		if k.m.setting.replicated() {
			return "rlock.ErrNotReplicated"
		}
	case r.unserved(k.m) && (k.wait >= 0 || k.lock.group()):
		return "a fault" // at once
	}
	return ""
}

// root returns the outermost level of the owner.
func (g *grant) root() *grant {
	for g.outer != nil {
		g = g.outer
	}
	return g
}

// judgeGrant judges that a call got the lock at all, and notes what limits the hold.
func (k *call) judgeGrant(g *grant) {
	r := k.c.run
	for _, refusal := range refused(k.lock, k.o.With) {
		r.problem("%s is not refused with %v", k, refusal)
	}
	if k.m.setting.replicated() && k.outer == nil && len(r.ground.Servers) == 1 && r.ground.Virtual {
		r.problem("%s has the lock, though no replica has it", k)
	}
	if k.exceeds() {
		r.problem("%s has more of the lock than the hold in which it nests", k)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	root := g.root()
	if lease := find(k.o.With, "WithLease").D; lease > 0 || k.o.has("WithMaxHold") {
		root.limited = true
	}
	root.longest = max(root.longest, find(k.o.With, "WithLease").D, find(k.o.With, "WithMinHold").D)
	root.open++
	if r.held++; r.held > r.most {
		r.most = r.held
	}
	root.handles = root.handles || g.hold != nil
	if g != root {
		root.nested, root.call.hosts = true, true
	}
}

// exceeds reports whether the call asks for more of a lock than the owner has in whose hold it
// nests: two owners that waited for more of a lock that both hold would wait for each other.
func (k *call) exceeds() bool {
	if k.outer == nil || k.lock.group() {
		return false
	}
	for g := k.outer; g != nil; g = g.outer {
		if !g.valid() || g.hold == nil && (g.mayEnd() || !g.run().sane()) { // IsHeld is true for an owner that took the lock anew
			return false // the level inside of it may have taken the lock anew, with more permits
		}
	}
	return k.lock.Kind == "write" && !writes(k.outer) || k.lock.Kind == "semaphore" && k.asked > k.outer.call.permits
}

// writes reports whether a level of the owner writes.
func writes(g *grant) bool {
	return g != nil && (g.call.lock.Kind == "write" || writes(g.outer))
}

// slack is the precision of a duration.
func (r *Run) slack() time.Duration { return 4*r.program.World.Trip + 30*ms }

// judgeWait judges how long a call has taken.
func (k *call) judgeWait(err error) {
	r := k.c.run
	if !r.ground.Virtual {
		return
	}
	now := r.now()
	if late := now - k.ends - k.pauses; late > 50*ms {
		r.problem("%s returns %v, %v after the end of its context", k, err, late)
	}
	if k.wait >= 0 && !k.lock.group() && k.verb != "rlock.Client.Resume" {
		limit := k.wait + k.pauses + r.slack()
		if r.unserved(k.m) {
			limit += 6 * time.Second
		}
		if took := now - k.began; took > limit {
			r.problem("%s returns %v after %v", k, err, took)
		}
	}
}

// judgeLength judges that a hold which is valid now may be valid.
func (g *grant) judgeLength() {
	r, o := g.run(), g.call.o
	if !r.ground.Virtual || g.moved {
		return
	}
	now := r.now()
	if d := find(o.With, "WithMaxHold").D; d > 0 && now > g.since+d {
		r.problem("%s: it is held for %v", g.call, now-g.since)
	}
	if d := find(o.With, "WithLease").D; d > 0 && g.outer == nil && !g.nested && now > g.since+d {
		r.problem("%s: its lease lasts for %v", g.call, now-g.since)
	}
}

// extended notes the end to which a hold was moved, and judges that the hold is believed for no
// longer. It may be believed for less and be renewed, since a command that has shortened the lease
// may run again.
func (g *grant) extended(now, to time.Duration) {
	r := g.run()
	if find(g.call.o.With, "WithLease").D == 0 || g.nested || !r.ground.Virtual || !r.sane() {
		return
	}
	if until := now + time.Until(g.hold.ValidUntil()); g.hold.Valid() && until > to+r.slack() {
		r.problem("%s: it was to end at %v, and ends at %v", g.call, to, until)
	}
	r.mu.Lock()
	g.lasts = to
	r.mu.Unlock()
}

// judgeCause judges why and when the context of a hold has ended.
func (g *grant) judgeCause() {
	r, o := g.run(), g.call.o
	r.mu.Lock()
	root, cause, over := g.root(), g.cause, g.over
	limited, certain, lasts := root.limited, !g.moved && !root.nested, g.lasts
	r.mu.Unlock()
	taken := errors.Is(cause, rlock.ErrTakenOver) || r.mayBeForced(g.call.lock)
	if d := lasts - over; errors.Is(cause, rlock.ErrLost) && !taken && !root.nested && d > lasts/50+r.slack() { // a nested level may have a MaxHold
		r.problem("%s: it was to last until %v, and is lost at %v: %v", g.call, lasts, over, cause)
	}
	switch {
	case errors.Is(cause, rlock.ErrTakenOver):
		g.judgeTaken(over, cause)
	case errors.Is(cause, rlock.ErrLost):
		if r.sane() && !limited && !taken {
			r.problem("%s: it is lost while nothing breaks: %v", g.call, cause)
		}
	case errors.Is(cause, rlock.ErrClosed):
		if !g.call.m.closes.Load() {
			r.problem("%s: its client is closed: %v", g.call, cause)
		}
	case errors.Is(cause, rlock.ErrNotHeld):
	default:
		r.problem("%s: its context ends with %v", g.call, cause)
	}
	if !errors.Is(cause, rlock.ErrLost) || taken || !r.sane() || !r.ground.Virtual || !certain {
		return
	}
	granted := g.since - g.call.pauses // a progress function may have blocked after the grant
	if d := find(o.With, "WithMaxHold").D; d > 0 && over < granted+d-r.slack()-10*ms {
		r.problem("%s: it is lost after %v: %v", g.call, over-g.since, cause)
	}
	if d := find(o.With, "WithLease").D; d > 0 && over < granted+d-d/100-r.slack()-12*ms {
		r.problem("%s: its lease has lasted for %v: %v", g.call, over-g.since, cause)
	}
}

// judge judges how a level was given back.
func (v *giving) judge(err error) {
	g, r := v.grant, v.grant.run()
	root := g.root()
	switch {
	case err == nil:
	case r.face.error(err, "rlock.ErrLost", rlock.ErrLost):
		if r.sane() && !root.mayEnd() {
			r.problem("%s: %s returns %v while nothing breaks", g.call, v.verb, err)
		}
		r.face.error(err, "rlock.ErrHeldTooLong", rlock.ErrHeldTooLong)
	case errors.Is(err, rlock.ErrClosed):
		if !g.call.m.closes.Load() {
			r.problem("%s: %s returns %v of a client that is open", g.call, v.verb, err)
		}
	case r.face.error(err, "rlock.ErrUnconfirmed", rlock.ErrUnconfirmed):
		if r.sane() && !g.call.m.closes.Load() {
			r.problem("%s: %s returns %v while nothing breaks", g.call, v.verb, err)
		}
	case r.barred.Load() && errors.Is(err, rlock.ErrNoPermission):
	case !r.sane() && v.verb == "rlock.Hold.ReleaseWith":
	default:
		r.problem("%s: %s returns %v", g.call, v.verb, err)
	}
	late, calm := 5200*ms, r.sane() && !g.call.m.closes.Load()
	if calm {
		late = r.slack()
	}
	if took := r.now() - v.began; r.ground.Virtual && took > late && (calm || !g.call.lock.group()) {
		r.problem("%s: %s takes %v", g.call, v.verb, took)
	}
	if g.hold == nil {
		return
	}
	if g.hold.Valid() || !g.hold.ValidUntil().IsZero() {
		r.problem("%s: it is valid after %s", g.call, v.verb)
	}
	for _, ctx := range append(g.derived, g.hold.Context()) {
		if ctx.Err() == nil {
			r.problem("%s: a context goes on after %s", g.call, v.verb)
		}
	}
	if v.verb == "rlock.Hold.Release" && g.call.o.ID%5 == 0 {
		if err := g.hold.Release(v.ctx); !errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrClosed) {
			r.problem("%s: a second Release returns %v", g.call, err)
		}
	}
}

// stays returns the time until which a lock stays after the release of its last level, for the
// least hold of a level; 0 if it is not known. A level that was given back late, or by a call that
// has not returned, may not have been released in order. A read lock ends sooner if its process is
// killed while others read.
func (v *giving) stays(late bool) (until time.Duration) {
	g, r := v.grant, v.grant.run()
	root := g.root()
	if d := find(g.call.o.With, "WithMinHold").D; d > 0 && r.now() < g.since+d {
		from := g.call.began
		if r.sane() {
			from = g.since - g.call.pauses - r.slack() // a progress function may block after the grant
		}
		root.least, root.most = max(root.least, from+d-2*ms), max(root.most, g.since+d+r.slack())
	}
	if root.open > 0 || root.most < v.began || !g.held || v.verb == "rlock.Hold.Pass" || g.call.m.closes.Load() {
		return 0
	}
	r.apart(g.call.lock, v.began, root.most+looks)
	if late || g.call.lock.Kind == "read" && r.program.World.Outside {
		return 0
	}
	return root.least
}

// judgeGuarded judges the error of a guarded write.
func (c *caller) judgeGuarded(g *grant, verb string, err error, ctx context.Context, valid bool) {
	r := c.run
	switch {
	case g.call.lock.group():
		if !errors.Is(err, errors.ErrUnsupported) {
			r.problem("%s: %s of a lock over several returns %v", g.call, verb, err)
		}
	case err == nil:
	case r.face.error(err, "rlock.ErrFenced", rlock.ErrFenced):
		if g.hold.Valid() {
			r.problem("%s: %s returns %v, and the hold is valid", g.call, verb, err)
		}
		if r.sane() && !g.mayEnd() && !g.call.m.closes.Load() {
			r.problem("%s: %s returns %v while nothing breaks", g.call, verb, err)
		}
	case errors.Is(err, rlock.ErrUnconfirmed):
		if r.sane() && ctx.Err() == nil {
			r.problem("%s: %s returns %v while nothing breaks", g.call, verb, err)
		}
	case g.call.m.closes.Load() && errors.Is(err, rlock.ErrClosed):
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case !r.sane(): // an error of the server, unchanged
	default:
		r.problem("%s: %s (valid before: %v) returns %v", g.call, verb, valid, err)
	}
}

// judgeQuestion judges the error of a call that takes no lock.
func (c *caller) judgeQuestion(verb string, err error, ctx context.Context) {
	r := c.run
	switch ends, limited := ctx.Deadline(); {
	case err == nil, !r.sane():
	case limited && !time.Now().Before(ends): // at this very moment
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case errors.Is(err, rlock.ErrClosed) && c.m.closes.Load():
	case c.m.setting.replicated() && errors.Is(err, rlock.ErrNotReplicated):
	default:
		r.problem("%s returns %v", verb, err)
	}
}

// question counts the call, and judges it as judgeQuestion does.
func (c *caller) question(verb string, err error, ctx context.Context) {
	c.run.face.call(verb)
	c.judgeQuestion(verb, err, ctx)
}

// judgeClosed judges a client that is closed: the contexts of its holds are over.
func (m *member) judgeClosed(err error, took time.Duration) {
	r := m.run
	limit := 6 * time.Second
	if r.sane() {
		limit = r.slack() + 100*ms
	}
	if took > limit && r.ground.Virtual {
		r.problem("Close of %s takes %v", m.name, took)
	}
	if err != nil && (r.sane() || !errors.Is(err, rlock.ErrUnconfirmed)) {
		r.problem("Close of %s returns %v", m.name, err)
	}
	r.mu.Lock()
	held := append([]*grant(nil), r.grants...)
	r.mu.Unlock()
	for _, g := range held {
		if g.call.m == m && g.hold != nil && (g.hold.Valid() || g.hold.Context().Err() == nil) {
			r.problem("%s: it goes on after Close", g.call)
		}
	}
	for _, c := range m.clients {
		if h := on(r.face, inspect.Of(c).Held)(); len(h) > 0 {
			r.problem("%s holds locks after Close: %v", m.name, h)
		}
		if s := inspect.Of(c).Stats(); s.Held != 0 || s.Waiting != 0 {
			r.problem("%s: the figures after Close: %+v", m.name, s)
		}
	}
	if on(r.face, inspect.Of(m.main()).ID)() == "" {
		r.problem("a client has no id")
	}
}
