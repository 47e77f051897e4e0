package programs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// Calls that take a lock over, and the holds that they end.

// A takeover is a call with WithTakeover, or one with LetThrough. Run.mu guards over, got and heal.
type takeover struct {
	call  *call
	lets  string // the future owner that LetThrough names; "" for a call with WithTakeover
	grace time.Duration
	over  time.Duration // when the call has returned; 0 for not yet
	got   bool          // the call has the lock
	heal  func()        // ends the excuse for a hold that is ended by force; nil before that may be
	stop  func() bool
}

// forced is the time from the end of the grace until a holder that does not answer is taken out.
const forced = 2 * time.Second

// takes notes that the call takes the lock over, if it does. If the holder does not hear of it, or
// the lock has no holder, the lock is taken by force once a claim has passed since the grace: Redis
// forgets a grant then.
func (k *call) takes() {
	option, r := find(k.o.With, "WithTakeover"), k.c.run
	if option.Name == "" || len(refused(k.lock, k.o.With)) > 0 {
		return
	}
	t := &takeover{call: k, grace: option.D}
	k.takeover = t
	t.stop = time.AfterFunc(t.grace+forced-r.slack(), func() {
		heal := r.injector.Inject(history.Fault{What: "takeover by force", Kind: "takeover by force", Forgets: true, Name: k.lock.Name})
		r.mu.Lock()
		over := t.over
		t.heal, r.forgotten[k.lock.Name] = heal, true
		r.mu.Unlock()
		if over > 0 {
			heal()
		}
	}).Stop
	r.mu.Lock()
	r.takeovers = append(r.takeovers, t)
	r.mu.Unlock()
}

// returns notes that a call which takes the lock over has returned.
func (t *takeover) returns(got bool) {
	if t == nil {
		return
	}
	r := t.call.c.run
	t.stop()
	r.mu.Lock()
	t.over, t.got = max(r.now(), 1), got
	heal := t.heal
	r.mu.Unlock()
	if heal != nil {
		heal()
	}
}

// takeoversOf returns the calls that take over what the hold has, of other owners. The caller holds
// Run.mu.
func (g *grant) takeoversOf() (all []*takeover) {
	for _, t := range g.run().takeovers {
		if slices.Contains(g.call.lock.names(), t.call.lock.Name) && t.call.owner != g.root().call.owner {
			all = append(all, t)
		}
	}
	return all
}

// mayEnd reports whether the hold may end by itself though nothing breaks: it has a limit, or
// another owner takes the lock over.
func (g *grant) mayEnd() bool {
	r := g.run()
	r.mu.Lock()
	defer r.mu.Unlock()
	return g.root().limited || len(g.takeoversOf()) > 0
}

// mayBeForced reports whether the lock may have been taken by force so far.
func (r *Run) mayBeForced(l Lock) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.takeovers, func(t *takeover) bool { return t.heal != nil && slices.Contains(l.names(), t.call.lock.Name) })
}

// lingers is the time for which a holder that has heard of a takeover does not ask whether the
// takeover goes on.
const lingers = 2 * time.Second

// judgeTaken judges a hold that has ended with ErrTakenOver: another owner takes the lock over, and
// the grace was over.
func (g *grant) judgeTaken(over time.Duration, cause error) {
	r := g.run()
	r.face.call("error rlock.ErrTakenOver")
	r.mu.Lock()
	takes := func(t *takeover) bool {
		waits := t.over == 0 || !r.sane() || t.over >= over-lingers-r.slack()
		return t.call.began+t.grace <= over && waits
	}
	some := slices.ContainsFunc(g.takeoversOf(), takes)
	r.mu.Unlock()
	if !some && !r.program.World.Outside { // in torture no process knows the calls of the others
		r.problem("%s: no other owner takes the lock over whose grace is over at %v: %v", g.call, over, cause)
	}
}

// judgeTakers judges that the next holder of each lock that was taken over from one owner, also by
// force, is a call that takes the lock over, unless such a call has left without the lock.
func (r *Run) judgeTakers() {
	if !r.sane() || !r.ground.Virtual {
		return
	}
	granted := func(g *grant) time.Duration { return g.since - g.call.pauses }
	for _, g := range r.grants {
		byForce := errors.Is(g.cause, rlock.ErrLost) && !g.root().limited && r.mayBeForced(g.call.lock)
		if g.call.shares || !byForce && !errors.Is(g.cause, rlock.ErrTakenOver) {
			continue
		}
		var next *grant
		for _, n := range r.grants {
			same := n.outer == nil && slices.Contains(n.call.lock.names(), g.call.lock.Name) && n.call.owner != g.root().call.owner
			if same && n.call.verb != "rlock.Client.Resume" && granted(n) > granted(g.root()) && (next == nil || granted(n) < granted(next)) {
				next = n
			}
		}
		leaves := func(t *takeover) bool {
			if t.lets != "" && (t.over == 0 || next.call.isOf(t.lets)) {
				return true
			}
			// A call that has left may return later, if its progress function blocks.
			return !t.got && t.over >= granted(g.root()) && t.call.began <= granted(next)
		}
		if next != nil && next.call.takeover == nil && !slices.ContainsFunc(g.takeoversOf(), leaves) {
			r.problem("%s: it was taken over, and the next that has the lock does not take it over: %s at %v", g.call, next.call, granted(next))
		}
	}
}

// unanswered is the time after the grace in which a waiter may still take the lock over if LetThrough
// had no answer: a holder is taken out by force within two looks of the waiter.
const unanswered = 10 * time.Second

// letThrough lets a waiter take the lock over, as an operator. If LetThrough has no answer, the
// waiter may do so later.
func (c *caller) letThrough(shown inspect.Lock, w inspect.Waiter) {
	grace, r := some(&generator{Rand: c.random}, 0, 20*ms, 200*ms), c.run
	o := &Op{Verb: "LetThrough", With: []Choice{{Name: "WithTakeover", D: grace}}}
	k := &call{c: c, m: c.m, o: o, verb: "inspect.Inspector.LetThrough", lock: Lock{"plain", shown.Name}, owner: fmt.Sprint("an operator#", r.number()), began: r.now()}
	k.takes()
	k.takeover.lets = w.Owner
	err := inspect.Of(c.m.main()).LetThrough(r.ctx, shown, w, grace)
	r.face.call(k.verb)
	told := err == nil || r.face.error(err, "inspect.ErrNotLetThrough", inspect.ErrNotLetThrough)
	switch {
	case told:
		k.takeover.returns(err == nil)
	case r.program.World.Outside: // a takeover that never returned would excuse all later overlaps of the lock
		time.AfterFunc(grace+unanswered, func() { k.takeover.returns(false) })
	}
	if r.sane() && (!told && !errors.Is(err, rlock.ErrClosed) || r.now()-k.began > grace+forced+r.slack()+time.Second) {
		r.problem("%s returns %v after %v", k, err, r.now()-k.began)
	}
}

// isOf reports whether the call has got the lock as the owner with that text.
func (k *call) isOf(owner string) bool {
	return strings.HasPrefix(owner, inspect.Of(k.m.main()).ID()) && strings.HasSuffix(owner, fmt.Sprint(":", k.seen.owner))
}
