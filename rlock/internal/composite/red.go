package composite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// NewRed returns the lock that consists of a majority of parts, one on each server. There may be
// more servers than parts: a server without a part counts as one that grants nothing.
func NewRed(name string, parts []Keyed, servers int) *Lock {
	need := servers/2 + 1
	switch {
	case servers == 0:
		return RefusingRed(name, "it has no clients: give it one of each server, three at best")
	case len(parts) < need:
		return RefusingRed(name, "%d of %d clients are nil, so that there is no majority", servers-len(parts), servers)
	}
	l := newLock(name, contract.KindRed, lockers(parts), need)
	l.gather = l.gatherMajority
	l.byForce = func(ctx context.Context) (ForceRelease, error) { return l.majorityByForce(ctx, parts) }
	return l
}

// lockers returns the parts as Lockers.
func lockers[P Locker](parts []P) (all []Locker) {
	for _, p := range parts {
		all = append(all, p)
	}
	return all
}

// RefusingRed returns a red lock that refuses every call, with that reason.
func RefusingRed(name, why string, args ...any) *Lock {
	return Refusing(name, fmt.Errorf("rlock: red lock %q: %w: %s", name, wire.ErrInvalidConfig, fmt.Sprintf(why, args...)))
}

// gatherMajority gathers a majority. A part that is granted later joins the hold, or is released if
// the call has failed.
func (l *Lock) gatherMajority(ctx context.Context, h *Hold) error {
	a := newAttempt(ctx, h)
	if err := a.run(ctx); err != nil {
		a.leave()
		a.decide(nil)
		l.giveBack(ctx, h.owner, a.granted())
		return err
	}
	h.quit = a.leave
	var parts []*member // some parts may have just ended: add notes their losses
	var lacks []Locker
	for _, r := range a.replicas {
		if r.held != nil {
			parts = append(parts, r.held)
		} else if !r.asking {
			lacks = append(lacks, r.lock)
		}
	}
	h.add(parts...)
	h.lackParts(lacks...)
	a.decide(h)
	return nil
}

// An attempt is one call's way to a majority.
//
// It asks all parts at once. If so many are denied that there can be no majority, it releases the
// parts behind the first denied one, and waits for the denied part. When it is granted this part,
// it asks the others again. So, except for the time of grace, it never waits for a part while it
// has a later one: attempts cannot wait in a circle, and at each step one of them goes on. Usually
// there is one step: all attempts wait at the first server, and the attempt that gets the part
// there gets the others. If processes have the servers in different orders there may be a circle,
// so an attempt that has waited in vain waits without any part the next time.
type attempt struct {
	lock    *Lock
	hold    *Hold // the hold that the attempt is for
	options *Options
	began   time.Time

	ctx context.Context // the context of each question; it does not end with the caller's context
	// quit, once closed, ends the waits at the parts. A single attempt in flight goes on to its
	// answer: to give it up would cost a release.
	quit  <-chan struct{}
	leave func() // closes quit

	replicas []*replica // one for each part
	asked    int        // the number of parts that are being asked
	at       *replica   // the part that the attempt waits for, or nil
	// patience is the wait of the next questions.
	patience time.Duration
	waiting  bool      // the attempt waits for a part, and the watchdog renews the others
	stuck    bool      // the attempt has waited in vain while it had other parts
	fails    int       // consecutive pauses because no part could be waited for
	since    time.Time // the time of the first of these pauses
	rounds   int       // the number of rounds that askAround has made
	results  chan result

	decided chan struct{} // closed once the call has its outcome
	joins   *Hold         // the hold to which later grants are added; nil if the call has failed
}

// A result is the answer of a part.
type result struct {
	from *replica
	got  *member
	err  error
}

func newAttempt(ctx context.Context, h *Hold) *attempt {
	a := &attempt{
		lock: h.of, hold: h, options: &h.options, began: time.Now(),
		results: make(chan result, len(h.of.parts)), // each part has one question at a time
		ctx:     context.WithoutCancel(ctx),
		decided: make(chan struct{}),
	}
	for i, l := range h.of.parts {
		a.replicas = append(a.replicas, &replica{lock: l, owner: h.owner, index: i})
	}
	waits, leave := context.WithCancel(a.ctx)
	a.quit, a.leave = waits.Done(), leave
	return a
}

// run gathers a majority.
func (a *attempt) run(ctx context.Context) error {
	if a.nest() {
		return nil
	}
	if a.options.Wait > 0 {
		// An owner of this process has a part or waits for it: behind that owner the attempt asks
		// no server.
		a.at = a.first(func(r *replica) bool { return r.state().Taken })
	}
	for {
		if a.at == nil && ctx.Err() == nil && a.askAround(ctx) {
			return nil
		}
		if err := a.over(ctx); err != nil {
			return err
		}
		if a.at == nil && !a.hopeless() && !a.isolated() {
			continue // some servers are slow
		}
		if a.wait(ctx) {
			return nil
		}
	}
}

// askAround asks all parts, and reports whether the attempt has a majority. If parts are denied, it
// sets a.at to the part to wait for. An attempt with a wait also waits for silent servers, for a
// limited time, since it keeps parts meanwhile that others may need. The time grows with each
// round, since the servers may be far away.
func (a *attempt) askAround(ctx context.Context) (won bool) {
	a.waiting = false // from now on grants have the lease of the call
	a.askAll()
	var tired <-chan time.Time
	if a.options.Wait > 0 {
		timer := time.NewTimer(contract.Silence << min(a.rounds, 5))
		defer timer.Stop()
		tired = timer.C
		a.rounds++
	}
	won = a.count(ctx, tired, a.hopeless)
	if !won && a.options.Wait == 0 {
		timer := time.NewTimer(contract.Silence)
		defer timer.Stop()
		won = a.count(ctx, timer.C, a.settled)
	}
	if !won && !a.isolated() {
		a.at = a.first(func(r *replica) bool { return r.denied() && !r.asking })
	}
	return won
}

// hopeless reports whether the answers still to come cannot make a majority.
func (a *attempt) hopeless() bool { return len(a.granted())+a.asked < a.lock.need }

// settled reports whether other owners are known to have a majority, or the answers to come cannot
// show a majority. A single attempt waits for these answers, but for contract.Silence at most: one
// denial and one silent server leave it open.
func (a *attempt) settled() bool {
	denied, spare := a.number(func(r *replica) bool { return r.denied() && !r.asking }), a.lock.spare()
	return denied > spare || denied+a.asked <= spare
}

// nest acquires one more level of the parts, if the owner holds a majority.
func (a *attempt) nest() bool {
	var mine []*replica
	for _, r := range a.replicas {
		if r.state().Depth > 0 {
			mine = append(mine, r)
		}
	}
	if len(mine) < a.lock.need {
		return false
	}
	for _, r := range mine {
		r.held, r.denial = a.hold.take(a.ctx, r.lock, Options{Lease: a.options.Lease})
	}
	return len(a.granted()) >= a.lock.need
}

// askAll asks every part that is neither held nor being asked. It leaves out servers that other
// calls of this process find silent.
func (a *attempt) askAll() {
	for _, r := range a.replicas {
		if r.held != nil || r.asking {
			continue
		}
		state, wait := r.state(), a.patience
		if state.IsSilent() {
			r.denial = errSilent
			continue
		}
		if state.Freeing {
			wait = grace // this process is releasing the part, which may already be free in Redis
		}
		if a.options.Wait > 0 {
			wait = min(wait, a.options.left(a.began)) // the last round ends with the call's time
		}
		a.ask(r, wait)
	}
}

func (a *attempt) ask(r *replica, wait time.Duration) {
	r.asking = true
	a.asked++
	homeOf(r.lock).do(func() {
		got, err := a.hold.take(a.ctx, r.lock, Options{Lease: a.options.Lease, Wait: max(wait, 0), Quit: a.quit})
		a.results <- result{r, got, err} // does not block
		a.takeLate()
	})
}

// decide ends the call: later grants join the hold, or are released if it is nil or over.
func (a *attempt) decide(joins *Hold) {
	a.joins = joins
	close(a.decided)
	a.takeLate()
}

// takeLate deals with results that come after decide.
func (a *attempt) takeLate() {
	select {
	case <-a.decided:
	default:
		return // the call takes them
	}
	for {
		select {
		case got := <-a.results:
			switch {
			case got.got == nil && a.joins != nil:
				a.joins.lackParts(got.from.lock)
			case got.got != nil && (a.joins == nil || !a.joins.add(got.got)):
				got.got.part.ReleaseLater()
			}
		default:
			return
		}
	}
}

// count takes results until there is a majority, ctx ends, up has a message, or enough returns
// true. It reports whether there is a majority.
func (a *attempt) count(ctx context.Context, up <-chan time.Time, enough func() bool) (won bool) {
	for {
		if len(a.granted()) >= a.lock.need {
			a.keep(false)
			if len(a.granted()) >= a.lock.need {
				return true
			}
		}
		if enough() || ctx.Err() != nil {
			return false
		}
		select {
		case got := <-a.results:
			a.note(got)
		case <-up:
			return false
		case <-ctx.Done():
		}
	}
}

// note notes the answer of a part.
func (a *attempt) note(got result) {
	r := got.from
	a.asked--
	r.asking, r.denial, r.held = false, got.err, got.got
	if a.at != nil && r.index > a.at.index {
		r.drop()
	}
	a.keepOne(r)
}

// granted returns the parts that the attempt holds. It drops parts that have ended.
func (a *attempt) granted() []*member {
	held := make([]*member, 0, len(a.replicas))
	for _, r := range a.replicas {
		if r.held != nil && r.held.part.ValidUntil().IsZero() {
			r.drop()
		}
		if r.held != nil {
			held = append(held, r.held)
		}
	}
	return held
}

// keep has the watchdog renew the parts that the attempt holds. If kept is false, keep begins the
// leases of these parts instead.
func (a *attempt) keep(kept bool) {
	a.waiting = kept
	for _, r := range a.replicas {
		a.keepOne(r)
	}
}

func (a *attempt) keepOne(r *replica) {
	lease := a.options.Lease
	if r.held == nil || lease == 0 || r.kept == a.waiting {
		return
	}
	if r.kept = a.waiting; r.kept {
		lease = 0
	}
	r.held.part.SetLease(lease)
}

const (
	// lookAround is the longest wait for one part, with jitter, before all servers are asked again:
	// the server of the part, or its holder, may be dead.
	lookAround = 2 * time.Second
	// grace is the wait for the other parts after the attempt was granted the part for which it
	// waited: the former holder releases them at the same time.
	grace = 50 * time.Millisecond
)

// first returns the first part for which is returns true, or nil.
func (a *attempt) first(is func(*replica) bool) *replica {
	if i := slices.IndexFunc(a.replicas, is); i >= 0 {
		return a.replicas[i]
	}
	return nil
}

// number returns the number of parts for which is returns true.
func (a *attempt) number(is func(*replica) bool) (n int) {
	for _, r := range a.replicas {
		if is(r) {
			n++
		}
	}
	return n
}

// isolated reports whether too few servers answer for a majority.
func (a *attempt) isolated() bool {
	return a.lock.spare() < a.number(func(r *replica) bool {
		fault := r.denial != nil && !r.denied()
		return r.held == nil && (fault || r.asking && a.rounds > 1 && r.state().IsSilent())
	})
}

// wait waits for the part a.at. If a.at is nil, wait gives up all parts, since attempts of others
// may reach more servers, and waits for servers to come back. It reports whether there is a
// majority.
func (a *attempt) wait(ctx context.Context) (won bool) {
	for _, r := range a.replicas {
		if a.at == nil || r.index > a.at.index || a.stuck && r != a.at {
			r.drop()
		}
	}
	a.keep(true)
	granted := false
	if left := a.options.left(a.began); a.at == nil {
		won = a.pause(ctx, left)
	} else {
		won = a.waitAt(ctx, a.at, left)
		granted = a.at.held != nil
	}
	a.patience = 0
	if granted {
		a.patience = grace
	}
	a.stuck = !granted && !a.stuck
	a.at = nil
	return won
}

// pause takes results during a pause. Consecutive pauses grow.
func (a *attempt) pause(ctx context.Context, most time.Duration) (won bool) {
	pause := time.NewTimer(min(wire.Jitter(min(wire.FirstRetry<<min(a.fails, 10), wire.LastRetry)), most))
	defer pause.Stop()
	if a.fails == 0 {
		a.since = time.Now()
	}
	a.fails++
	a.lock.home.Trouble(a.lock.name, a.since, a.fault())
	return a.count(ctx, pause.C, func() bool { return false })
}

// waitAt waits until the part r is granted or denied, for the time most at the longest.
func (a *attempt) waitAt(ctx context.Context, r *replica, most time.Duration) (won bool) {
	a.fails = 0
	wait := min(wire.Jitter(lookAround), most)
	if !r.asking && r.held == nil {
		a.ask(r, wait)
	}
	answered := func() bool { return !r.asking }
	for until := time.Now().Add(wait + grace); !won && !answered() && ctx.Err() == nil; {
		look := time.NewTimer(min(contract.Silence, time.Until(until)))
		won = a.count(ctx, look.C, answered)
		look.Stop()
		if r.state().IsSilent() || !time.Now().Before(until) {
			break
		}
	}
	return won
}

// over returns the error of an attempt that ends without a majority, or nil if it goes on.
func (a *attempt) over(ctx context.Context) error {
	denied, spare, fault := a.number((*replica).denied), a.lock.spare(), a.fault()
	hopeless := a.number(func(r *replica) bool {
		err := r.fault()
		return err != nil && incurable(err)
	})
	switch name := a.lock.name; {
	case ctx.Err() != nil:
		return fmt.Errorf("rlock: lock %q: %w", name, wire.TimeUp(ctx, fault))
	case hopeless <= spare && a.options.left(a.began) > 0:
		return nil
	case hopeless <= spare && (denied > spare || fault == nil):
		return fmt.Errorf("rlock: lock %q: %w", name, a.refusal())
	default:
		return fmt.Errorf("rlock: lock %q: fewer than %d servers grant it: %w", name, a.lock.need, fault)
	}
}

// refusal returns contract.ErrNotAcquired, with the holder of the first part whose holder is known.
func (a *attempt) refusal() error {
	for _, r := range a.replicas {
		if held := (*wire.HeldError)(nil); r.denied() && errors.As(r.denial, &held) {
			return held
		}
	}
	return contract.ErrNotAcquired
}

// fault returns the last errors of the servers that neither granted nor denied their parts.
func (a *attempt) fault() error {
	var faults []error
	for _, r := range a.replicas {
		if err := r.fault(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", homeOf(r.lock).Where(), err))
		}
	}
	return errors.Join(faults...)
}

// A replica is what an attempt knows of a red lock's part on one server.
type replica struct {
	lock   Locker
	owner  contract.Owner
	index  int     // the index of the part
	held   *member // the part that was granted, or nil
	kept   bool    // the watchdog renews the part, although the hold is to have a lease
	asking bool    // a question is in flight
	denial error   // the error of the last answer, or nil
}

// denied reports whether another owner has the part, by the last answer.
func (r *replica) denied() bool { return r.held == nil && errors.Is(r.denial, contract.ErrNotAcquired) }

// state returns the state of the part as this client knows it.
func (r *replica) state() contract.State { return r.lock.State(r.owner) }

// drop releases the part. The next acquire of the part in this process waits for the release.
func (r *replica) drop() {
	if r.held != nil {
		r.held.part.ReleaseLater()
		r.held, r.kept = nil, false
	}
}

// errSilent is the error of a server that other calls of this process find silent.
var errSilent = errors.New("the server has not answered for a while")

// fault returns the reason why the part is neither held nor denied, or nil.
func (r *replica) fault() error {
	switch {
	case r.held != nil, r.denied():
		return nil
	case !r.asking:
		return r.denial
	case r.state().Silent >= contract.Silence-grace: // less by grace: the part was asked a moment after the attempt began to count
		return errSilent
	}
	return nil
}

// incurable reports whether waiting does not cure the error of a part.
func incurable(err error) bool {
	if reply := (*rueidis.RedisError)(nil); errors.As(err, &reply) {
		d, _ := wire.Diagnose(reply)
		return d == wire.Never
	}
	return wire.IsPermanent(err) || errors.Is(err, wire.ErrClosed) || errors.Is(err, rueidis.ErrClosing) || errors.Is(err, contract.ErrLost)
}
