package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// NewRed returns the lock that is the majority of one lock on each of so many servers. A server without one grants
// nothing.
func NewRed(name string, parts []Locker, servers int) *Lock {
	need := servers/2 + 1
	switch {
	case servers == 0:
		return RefusingRed(name, "it has no clients: give it one of each server, three at best")
	case len(parts) < need:
		return RefusingRed(name, "%d of %d clients are nil, so that there is no majority", servers-len(parts), servers)
	}
	l := newLock(name, terms.KindRed, parts, need)
	l.gather = l.elect
	return l
}

// RefusingRed returns a red lock that cannot be.
func RefusingRed(name, why string, args ...any) *Lock {
	return Refusing(name, fmt.Errorf("rlock: red lock %q: %w: %s", name, wire.ErrInvalidConfig, fmt.Sprintf(why, args...)))
}

// elect gathers a majority. A grant after that joins the hold; one after it has given up is
// released.
func (l *Lock) elect(ctx context.Context, h *Hold) error {
	a := newAttempt(ctx, h)
	if err := a.run(ctx); err != nil {
		a.leave()
		a.decide(nil)
		l.giveBack(ctx, h.owner, a.granted())
		return err
	}
	h.quit = a.leave
	var parts []*member // also those that have just ended: the hold must learn of their loss
	var lacks []Locker
	for _, r := range a.replicas {
		if r.held != nil {
			parts = append(parts, r.held)
		} else if !r.asking {
			lacks = append(lacks, r.lock)
		}
	}
	h.add(parts...)
	h.without(lacks...)
	a.decide(h)
	return nil
}

// An attempt is one call's way to a majority.
//
// All parts are asked at once. If so many deny that there can be no majority, it lets
// go of all that is behind the first part that denies, and waits there. When it is
// granted that part, it asks the others again. So it never waits for a part with one in
// hand that is further back, except for the time of grace: attempts cannot wait in a
// circle, and at each step one of them goes on. Usually there is one step: all wait at the
// first server, and the attempt that gets it gets the others. Where processes have the
// servers in different orders there may be a circle, and so an attempt that has waited in
// vain waits the next time with nothing in hand.
type attempt struct {
	lock    *Lock
	hold    *Hold // that the parts are taken for
	options *Options
	began   time.Time

	ctx context.Context // of each question: without the caller's end
	// quit, once closed, ends the waits at the parts. An answer that is on its way is
	// awaited: to give it up costs a release, which may find nothing.
	quit  <-chan struct{}
	leave func() // closes quit

	replicas []*replica // by part
	asked    int        // how many are being asked
	at       *replica   // the one that is waited at, nil for none
	// patience is how long the parts that are asked next may wait.
	patience time.Duration
	waiting  bool      // it waits elsewhere, and the watchdog keeps the holds
	stuck    bool      // it has waited in vain, with others in hand
	fails    int       // in a row, with nowhere to wait
	since    time.Time // when the first of them was
	rounds   int       // how often all were asked
	results  chan result

	decided chan struct{} // closed once the call has its outcome: results are dealt with as they come
	joins   *Hold         // decided: what they are for, nil if the call has failed
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
		results: make(chan result, len(h.of.parts)), // a part is asked once at a time
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

// run returns nil once it holds a majority.
func (a *attempt) run(ctx context.Context) error {
	if a.nest() {
		return nil
	}
	if a.options.Wait > 0 {
		a.at = a.behind()
	}
	for {
		if a.at == nil && ctx.Err() == nil && a.askAround(ctx) {
			return nil
		}
		if err := a.over(ctx); err != nil {
			return err
		}
		if a.at == nil && !a.hopeless() && !a.isolated() {
			continue // the others are slow
		}
		if a.wait(ctx) {
			return nil
		}
	}
}

// askAround asks all parts, and reports whether it has a majority. If it is denied one, it
// finds the part to wait at. An attempt that may wait does not keep parts that others need while
// it waits for silent servers; but it waits longer each time, since they may be far away.
func (a *attempt) askAround(ctx context.Context) (won bool) {
	a.waiting = false // a grant has the wanted lease from now on
	a.askAll()
	var tired <-chan time.Time
	if a.options.Wait > 0 {
		timer := time.NewTimer(terms.Silence << min(a.rounds, 5))
		defer timer.Stop()
		tired = timer.C
		a.rounds++
	}
	won = a.count(ctx, tired, a.hopeless)
	if !won && a.options.Wait == 0 {
		timer := time.NewTimer(terms.Silence)
		defer timer.Stop()
		won = a.count(ctx, timer.C, a.settled)
	}
	if !won && !a.isolated() {
		a.at = a.firstDenial()
	}
	return won
}

// hopeless reports whether the answers to come cannot make a majority.
func (a *attempt) hopeless() bool { return len(a.granted())+a.asked < a.lock.need }

// settled reports whether the answers to come cannot show that a majority is another's, or it is shown already. An attempt that
// may not wait waits for these answers, for terms.Silence at most: one denial and one silent server do not say it.
func (a *attempt) settled() bool {
	denied, spare := 0, len(a.replicas)-a.lock.need
	for _, r := range a.replicas {
		if r.denied() && !r.asking {
			denied++
		}
	}
	return denied > spare || denied+a.asked <= spare
}

// nest takes one level more of the parts if the owner holds a majority.
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

// askAll asks every part that is neither held nor being asked, nor is silent to others
// of this process.
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
			wait = grace // it is denied here, and free there
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
		a.results <- result{r, got, err} // which has room for it
		a.settle()
	})
}

// decide gives the call its outcome: later grants join the hold, or are released if that is nil or over.
func (a *attempt) decide(joins *Hold) {
	a.joins = joins
	close(a.decided)
	a.settle()
}

// settle deals with the results that have come after the call had its outcome.
func (a *attempt) settle() {
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
				a.joins.without(got.from.lock)
			case got.got != nil && (a.joins == nil || !a.joins.add(got.got)):
				got.got.part.ReleaseLater()
			}
		default:
			return
		}
	}
}

// count takes results until it has a majority (true), or the end of ctx, the time is up,
// or it is said to be enough.
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
			a.take(got)
		case <-up:
			return false
		case <-ctx.Done():
		}
	}
}

func (a *attempt) take(got result) {
	r := got.from
	a.asked--
	r.asking, r.denial, r.held = false, got.err, got.got
	if a.at != nil && r.index > a.at.index {
		r.drop()
	}
	a.keepOne(r)
}

// granted returns the held members. A grant that is over does not count.
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

// keep makes the watchdog keep the held members, or begins the lease of those that it has
// kept.
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
	// lookAround is how long an attempt waits at one server, at most and with jitter,
	// before it asks all servers again: the server, or the holder of the lock there, may
	// be dead.
	lookAround = 2 * time.Second
	// grace is how long an attempt that was just granted the part it waited for waits for
	// the others: the former holder releases them at the same time.
	grace = 50 * time.Millisecond
)

// behind returns the first part that another owner of this process has or waits for,
// nil if there is none: the caller goes behind them, and asks no server.
func (a *attempt) behind() *replica {
	for _, r := range a.replicas {
		if r.state().Taken {
			return r
		}
	}
	return nil
}

// isolated reports whether so few servers answer that there is no majority to be had.
func (a *attempt) isolated() bool {
	dead := 0
	for _, r := range a.replicas {
		fault := r.denial != nil && !r.denied()
		if r.held == nil && (fault || r.asking && a.rounds > 1 && r.state().IsSilent()) {
			dead++
		}
	}
	return dead > len(a.replicas)-a.lock.need
}

// firstDenial returns the first part that said that another has it, nil if none did.
func (a *attempt) firstDenial() *replica {
	for _, r := range a.replicas {
		if r.denied() && !r.asking {
			return r
		}
	}
	return nil
}

// wait waits for a while at the part, or for servers to come back if there is none to
// wait at; attempts of others that reach more servers may use its parts meanwhile. It
// reports whether it has a majority.
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

// pause takes results for a while, which is longer each time in a row.
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

// waitAt waits until the part has answered, or for so long at most that another server may
// answer sooner.
func (a *attempt) waitAt(ctx context.Context, r *replica, most time.Duration) (won bool) {
	a.fails = 0
	wait := min(wire.Jitter(lookAround), most)
	if !r.asking && r.held == nil {
		a.ask(r, wait)
	}
	answered := func() bool { return !r.asking }
	for until := time.Now().Add(wait + grace); !won && !answered() && ctx.Err() == nil; {
		look := time.NewTimer(min(terms.Silence, time.Until(until)))
		won = a.count(ctx, look.C, answered)
		look.Stop()
		if r.state().IsSilent() || !time.Now().Before(until) {
			break
		}
	}
	return won
}

// over returns why the attempt is over without a majority, nil if it goes on.
func (a *attempt) over(ctx context.Context) error {
	denied, hopeless, spare := 0, 0, len(a.replicas)-a.lock.need
	for _, r := range a.replicas {
		if r.denied() {
			denied++
		}
		if err := r.fault(); err != nil && incurable(err) {
			hopeless++
		}
	}
	fault := a.fault()
	switch name := a.lock.name; {
	case ctx.Err() != nil:
		return fmt.Errorf("rlock: lock %q: %w", name, wire.TimeUp(ctx, fault))
	case hopeless <= spare && a.options.left(a.began) > 0:
		return nil
	case hopeless <= spare && (denied > spare || fault == nil):
		return fmt.Errorf("rlock: lock %q: %w", name, terms.ErrNotAcquired)
	default:
		return fmt.Errorf("rlock: lock %q: no majority, which is %d servers: %w", name, a.lock.need, fault)
	}
}

// fault returns what the servers said last that neither granted their parts nor denied them.
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
	owner  terms.Owner
	index  int     // among the parts
	held   *member // nil if it is not held
	kept   bool    // by the watchdog, though the lock has a lease
	asking bool    // the answer is not in
	denial error   // the last answer, if it was no grant
}

// denied reports whether another is said to have the part.
func (r *replica) denied() bool { return r.held == nil && errors.Is(r.denial, terms.ErrNotAcquired) }

// state returns the state of the part without asking Redis.
func (r *replica) state() terms.State { return r.lock.State(r.owner) }

// drop releases the part. The next acquire of it here waits for that.
func (r *replica) drop() {
	if r.held != nil {
		r.held.part.ReleaseLater()
		r.held, r.kept = nil, false
	}
}

// errSilent is the fault of a server that others of this process are waiting for.
var errSilent = errors.New("the server has not answered for a while")

// fault returns why the part is neither held nor said to be another's, nil if it is not known to be at fault.
func (r *replica) fault() error {
	switch {
	case r.held != nil, r.denied():
		return nil
	case !r.asking:
		return r.denial
	case r.state().Silent >= terms.Silence-grace: // its turn to be asked was a little later
		return errSilent
	}
	return nil
}

// incurable reports whether waiting does not cure what a part said.
func incurable(err error) bool {
	if reply := (*rueidis.RedisError)(nil); errors.As(err, &reply) {
		f, _ := wire.Diagnose(reply)
		return f == wire.Never
	}
	for _, sentinel := range []error{wire.ErrClosed, rueidis.ErrClosing, terms.ErrLost, wire.ErrInvalidName, wire.ErrNoPermission, wire.ErrUnsupported, wire.ErrWrongType} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
