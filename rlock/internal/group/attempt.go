package group

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

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
