package programs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// The judgement of what callers are told: errors, waits, and the ends of holds.

// sane reports whether nothing breaks in this program.
func (r *Run) sane() bool { return r.program.World.Calm }

func (r *Run) healedAt() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.healed == 0 && !r.sane() {
		return forever
	}
	return r.healed
}

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

// explains names the documented error that err is, if the call may return it in its situation; else
// it returns "".
func (k *call) explains(err error) string {
	r, with := k.c.run, k.o.With
	has := func(name string) bool { return find(with, name).Name != "" }
	closing := k.m.closes.Load()
	for _, refusal := range refused(k.lock, with) {
		if errors.Is(err, refusal) {
			return nameOf(refusal)
		}
	}
	switch {
	case err == nil:
		if k.wait >= 0 && (k.verb == "rlock.Lock.TryLock" || k.verb == "rlock.Lock.TryLockFor") {
			return "false"
		}
	case errors.Is(err, rlock.ErrTooManyWaiters):
		if has("WithMaxWaiters") && errors.Is(err, rlock.ErrNotAcquired) {
			return "rlock.ErrTooManyWaiters"
		}
	case errors.Is(err, rlock.ErrNotPassed):
		if k.verb == "rlock.Client.Resume" && (k.parcel == nil || !r.sane() || r.now() > k.parcel.until-r.slack() || r.mayBeForced(k.parcel.lock)) {
			return "rlock.ErrNotPassed"
		}
	case errors.Is(err, rlock.ErrNotAcquired):
		if k.wait >= 0 && k.verb != "rlock.Lock.TryLock" && k.verb != "rlock.Lock.TryLockFor" {
			return "rlock.ErrNotAcquired"
		}
	case errors.Is(err, rlock.ErrUpgrade):
		if k.outer != nil && (k.lock.Kind == "write" || has("WithPermits")) {
			return "rlock.ErrUpgrade"
		}
	case errors.Is(err, rlock.ErrClosed):
		if closing {
			return "rlock.ErrClosed"
		}
	case errors.Is(err, rlock.ErrHeldTooLong):
		if k.outer != nil && k.outer.root().limited {
			return "rlock.ErrHeldTooLong"
		}
	case errors.Is(err, rlock.ErrLost):
		if k.outer != nil && (!r.sane() || k.outer.mayEnd()) {
			return "rlock.ErrLost"
		}
	case errors.Is(err, rlock.ErrNoPermission):
		if r.barred.Load() {
			return "rlock.ErrNoPermission"
		}
	case k.ctx.Err() != nil && errors.Is(err, k.ctx.Err()):
		if k.outer != nil && k.outer.valid() && r.sane() && k.outer.lock == nil {
			return ""
		}
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

// nameOf names the error of a call that is refused.
func nameOf(err error) string {
	switch err {
	case rlock.ErrInvalidLease:
		return "rlock.ErrInvalidLease"
	case rlock.ErrPermits:
		return "rlock.ErrPermits"
	}
	return "errors.ErrUnsupported"
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
	case errors.Is(err, rlock.ErrLost):
		if r.sane() && !root.mayEnd() {
			r.problem("%s: %s returns %v while nothing breaks", g.call, v.verb, err)
		}
		if errors.Is(err, rlock.ErrHeldTooLong) {
			r.face.call("error rlock.ErrHeldTooLong")
		}
		r.face.call("error rlock.ErrLost")
	case errors.Is(err, rlock.ErrClosed):
		if !g.call.m.closes.Load() {
			r.problem("%s: %s returns %v of a client that is open", g.call, v.verb, err)
		}
	case errors.Is(err, rlock.ErrUnconfirmed):
		if r.sane() && !g.call.m.closes.Load() {
			r.problem("%s: %s returns %v while nothing breaks", g.call, v.verb, err)
		}
		r.face.call("error rlock.ErrUnconfirmed")
	case r.barred.Load() && errors.Is(err, rlock.ErrNoPermission):
	case !r.sane() && v.verb == "rlock.Hold.ReleaseWith":
	default:
		r.problem("%s: %s returns %v", g.call, v.verb, err)
	}
	if took := r.now() - v.began; r.ground.Virtual && took > 5200*ms && !g.call.lock.group() {
		r.problem("%s: %s takes %v", g.call, v.verb, took)
	}
	if r.sane() && r.ground.Virtual && r.now()-v.began > r.slack() && !g.call.m.closes.Load() {
		r.problem("%s: %s takes %v while nothing breaks", g.call, v.verb, r.now()-v.began)
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

// judgeStep judges the error of a call for a hold.
func (c *caller) judgeStep(g *grant, verb string, err error, ctx context.Context, valid bool, allowed []error) {
	r := c.run
	for _, a := range allowed {
		if err == a || a != nil && errors.Is(err, a) {
			if err != nil {
				r.face.call("error " + a.Error())
			}
			return
		}
	}
	switch {
	case g.call.m.closes.Load() && errors.Is(err, rlock.ErrClosed):
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case g.call.lock.group() && errors.Is(err, errors.ErrUnsupported):
	default:
		r.problem("%s: %s of a hold (valid before: %v) returns %v", g.call, verb, valid, err)
	}
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
	case errors.Is(err, rlock.ErrFenced):
		r.face.call("error rlock.ErrFenced")
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
		if h := inspect.Of(c).Held(); len(h) > 0 {
			r.problem("%s holds locks after Close: %v", m.name, h)
		}
		r.face.call("inspect.Inspector.Held")
		if s := inspect.Of(c).Stats(); s.Held != 0 || s.Waiting != 0 {
			r.problem("%s: the figures after Close: %+v", m.name, s)
		}
	}
	if fmt.Sprint(inspect.Of(m.main()).ID()) == "" {
		r.problem("a client has no id")
	}
	r.face.call("inspect.Inspector.ID")
}
