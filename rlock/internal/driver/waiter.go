package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A waiter is a call that waits, from when it begins until it returns. The shard's mutex protects it.
type waiter struct {
	core.Call
	ready chan wakeUp // has room for one of each
	timer *time.Timer // nil until it is needed
	stage stage
	until *until // flying: by which that ends; nil for none to be used again

	// carried is the exchange of the command in flight, nil for none. The answer lands with the call as long as this is set:
	// land and abandon end it, under the mutex of the shard.
	carried *exchange
	visit
}

// A visit is the part of a waiter that is new with each call.
type visit struct {
	req    Request
	passed string      // of Resume: the owner that the lock was passed on with; of Force: the holder that is to leave
	write  *wire.Write // of Write
	hold   *hold       // the handle to fill in, nil for Lock
	site   *terms.Site // where it is made, nil if that is not recorded, nor found yet

	waits   bool // it has waited for anything but the answer to an attempt
	locates bool // it is to find out where it was made
	logged  bool // it was logged that it waits for its own goroutine

	watches        bool        // it waits in the line, and its caller is told where it stands
	place, waiting int         // that it was told last, 0 for nothing
	toldAt         core.Time   // when that was
	telling        bool        // the function that tells its caller runs
	turn           *time.Timer // ends the turn that it was granted while that runs; nil for none
	missed         bool        // it has ended it

	answer  string    // GotAnswer: what the release has told
	clock   int64     // of Redis in µs, as the first answer has told it that does; 0 for none
	read    core.Time // when that command was sent
	checked bool      // its condition was checked by the command that has ended it

	waited  time.Duration // until it was granted
	earlier earlierLosses // than its grant

	holder  string    // that Redis named last, "" if it named none
	endless bool      // that holder's key has no TTL
	err     error     // the last answer's, nil for none
	since   time.Time // of the first error in a row; zero for none
	shut    time.Time // since when each attempt was told that the rueidis client is closed
}

// A stage is what the goroutine of a call does.
type stage uint8

const (
	running  stage = iota // it has the mutex, or is about to take it, and looks for itself
	flying                // it waits for the answer to its command
	asleep                // it waits until there may be something to do
	queueing              // the same, or until there is a slot among the commands in flight
	waking                // it was woken, and is on its way to the mutex
	serving               // it has the lock, and a message that says so is on its way
)

// isAsleep reports whether the goroutine has to be woken.
func (s stage) isAsleep() bool { return s == asleep || s == queueing }

// A wakeUp is why a call is woken.
type wakeUp uint8

const (
	looks  wakeUp = iota // it has to look, with the mutex
	served               // it has the lock
)

// abandon takes the call out of the command that its caller has left behind, which lands without it: the memory of the call is
// reused, by another lock perhaps. The mutex is held. It does nothing if the answer has landed.
func (w *waiter) abandon() {
	if x := w.carried; x != nil {
		x.waiter, w.carried = nil, nil
	}
}

// wake makes a call that is asleep ask what to do. The mutex is held.
func (w *waiter) wake() {
	if !w.stage.isAsleep() {
		return // it looks by itself
	}
	w.stage = waking
	if len(w.ready) == 0 { // else a message of an earlier sleep is there, which does as well
		w.ready <- looks
	}
}

// served wakes a call that has the lock. The call does not return before that, since its memory is used again: a later call
// would take the message for its own. It does not wait for the goroutine, which may be in a function of the user's.
func (w *waiter) served() { w.ready <- served }

// awaitServed waits for served, after another reason to wake. It is called without a mutex.
func (w *waiter) awaitServed() {
	for <-w.ready != served {
	}
}

// after returns a channel that has a message at that time, nil for never. A channel of an earlier call is of
// no use any more.
func (w *waiter) after(at, now core.Time) <-chan time.Time {
	d := time.Duration(at.Since(now))
	switch {
	case at == core.Never:
		return nil
	case d <= 0:
		return past // without a timer: one that is due when a select begins costs more, and Go's race detector dies of it in a bubble of synctest
	case w.timer == nil:
		w.timer = time.NewTimer(d)
	default:
		w.timer.Reset(d)
	}
	return w.timer.C
}

// past has a message at any time.
var past = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// newCall returns a call that begins as the first one.
func (c *Client) newCall(first *core.Call) *waiter {
	w := c.waiters.Get().(*waiter)
	w.Call = *first
	w.visit = visit{}
	w.Tag = w
	return w
}

// done gives the waiter back.
func (c *Client) done(w *waiter) {
	for len(w.ready) > 0 {
		<-w.ready
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	c.waiters.Put(w)
}

// park gives the mutex back until that time, until there may be something to do, or until there is a slot of the limit, if one
// is waited for: then it returns that. It reports whether the call was served, and then it has not taken the mutex again.
func (l *lock) park(ctx context.Context, w *waiter, limit *wire.Limit, at core.Time, now core.Now) (_ core.Now, slot *wire.Limit, got bool) {
	if w.locates {
		w.locates = false
		w.locate()
	}
	var slots chan<- struct{}
	w.stage = asleep
	if limit != nil {
		slots, w.stage = limit.Slots(), queueing
	}
	l.exitWaiting(ctx, w)
	if w.watches && w.place > 0 {
		at = min(at, w.toldAt.After(tellTime))
	}

	over, quit := false, false
	select {
	case why := <-w.ready:
		if why == served {
			return now, nil, true
		}
	case <-w.after(at, now.Time):
	case slots <- struct{}{}:
		slot = limit.Entered()
	case <-ctx.Done():
		over = true
	case <-w.req.Quit:
		quit = true
	}
	now = l.shard.take()
	was := w.stage
	w.stage = running
	switch {
	case was == serving:
		l.shard.exit(l)
		w.awaitServed()
		return now, slot, true
	case over:
		l.Leave(&w.Call, core.Cancelled, now)
	case quit:
		w.Until, w.req.Quit = now.Time, nil // its last command may be on its way
	}
	if l.heard && w.Outcome == core.Waiting {
		l.unheard(now)
	}
	return now, slot, false
}

// hasWaited reports whether the call, which is over, had to wait. A message may overtake the answer to its Join: then it has
// waited in Redis' queue although it was not counted.
func (w *waiter) hasWaited() bool {
	return w.waits || !w.checked && (w.Outcome == core.GotAnswer || w.Outcome == core.Acquired && w.Way == core.ByQueue)
}

// exitWaiting gives the mutex back since the call has to wait, which is counted and told once: not for the
// answer to an attempt. Its caller is told where it stands if that is news.
func (l *lock) exitWaiting(ctx context.Context, w *waiter) {
	c, n := l.shard.client, l.name
	t := w.Tenure
	begins := !w.waits && w.Purpose == core.Locks && (t == nil || t.InFlight() == core.None)
	if begins {
		w.waits = true
		l.shard.counts.Waiting++
		c.waitBegins()
	}
	moves := w.watches && l.moves(w)
	w.telling = moves
	l.shard.exit(l)
	if begins && c.watches(&w.req) {
		c.Observer.Waiting.Tell(ctx, n.Event(w.req.Owner, w.req.Shared))
	}
	if moves {
		l.tellPlace(ctx, w)
	}
}

// locate finds out where the call was made, if that is not recorded. It is called by its own goroutine.
func (w *waiter) locate() {
	if w.site == nil {
		w.site = terms.Here()
	}
	if w.site == nil {
		w.site = new(terms.Site) // which is not known
	}
}

// tellOwnWait logs at once that w waits for a lock that its own goroutine holds as its owner: an
// Acquire after a Lock. No other goroutine can end that hold, so the wait lasts until the call
// ends. A handle may be released by another goroutine: a wait for one is not logged.
// The mutex is held.
func (l *lock) tellOwnWait(w *waiter, now core.Now) {
	goroutine := w.req.Goroutine()
	if goroutine == 0 || goroutine == w.req.Owner.ID || w.logged {
		return
	}
	levels, c := l.Levels(), l.shard.client
	for i := range levels {
		v := &levels[i]
		if o := ownerOf(v); o.Guest || o.ID != goroutine || !l.Holds(v.Owner, now) {
			continue
		}
		w.logged = true
		w.locate()
		c.Config.Logger.Warn("rlock: a call waits for a lock that its own goroutine holds: use the context of the Hold, or WithOwner, to nest",
			"lock", l.name.Key, "kind", l.name.KindOf(w.req.Shared), "owner", w.req.Owner, "waited", time.Duration(0), "site", terms.Known(w.site).String(),
			"holder", ownerOf(v), "held", time.Duration(now.Time.Since(v.Since)).Round(time.Millisecond), "holder_site", terms.Known(siteOf(v)).String())
		return
	}
}

// A caller may ask to be told where it stands among those that wait (Request.Progress). Nothing is sent for that: a Join and
// a Look of a lock in which such a call waits ask Redis also where the ticket stands, and what the process knows by itself is the
// line of its callers. The goroutine of a call is woken when its place may be another, and tells its caller without a mutex.

// An audience is the knowledge of a client about those that wait for a lock, while one of them is told. The shard's mutex
// protects it.
type audience struct {
	watchers int             // how many calls are told
	tickets  int             // in Redis' queue, as it has said last
	before   map[core.ID]int // how many of them stand before a ticket of this client
	told     core.Time       // when all watchers were woken last
}

// More watchers of a lock than mostWatchers are woken every watchTime at most: hand-offs would spend their time on that.
const mostWatchers, watchTime = 64, core.Span(100e6)

// watch notes that a call begins to wait that is told where it stands.
func (l *lock) watch(w *waiter) {
	s := l.shard
	c := s.audiences[l]
	if c == nil {
		c = &audience{before: make(map[core.ID]int)}
		if s.audiences == nil {
			s.audiences = make(map[*lock]*audience)
		}
		s.audiences[l] = c
	}
	c.watchers++
	w.watches = true
}

// isWatched reports whether a call waits that is told where it stands.
func (l *lock) isWatched() bool { return len(l.shard.audiences) > 0 && l.shard.audiences[l] != nil }

// leavesLine notes that a call does not wait any more: those behind it move up.
func (l *lock) leavesLine(w *waiter) {
	c := l.shard.audiences[l]
	if c == nil {
		return
	}
	if w.watches {
		if c.watchers--; c.watchers == 0 {
			delete(l.shard.audiences, l)
			return
		}
	}
	if at := l.shard.at.Time; c.watchers <= mostWatchers || at.Since(c.told) >= watchTime {
		l.wakeWatchers(c)
	}
}

// counted notes where Redis has found a ticket.
func (l *lock) counted(x *exchange) {
	c := l.shard.audiences[l]
	if c == nil || x.Answer.Err != nil || x.Answer.Fault != core.Answered {
		return
	}
	for id := range c.before {
		if l.Find(id) == nil {
			delete(c.before, id)
		}
	}
	if delete(c.before, x.Cmd.ID); x.Answer.Before >= 0 {
		c.before[x.Cmd.ID], c.tickets = x.Answer.Before, x.Answer.Tickets
	}
	l.wakeWatchers(c)
}

func (l *lock) wakeWatchers(c *audience) {
	c.told = l.shard.at.Time
	for call := range l.Waiters {
		if w := call.Tag.(*waiter); w.watches {
			w.wake()
		}
	}
}

// tellTime is how often a caller is told at least where it stands, once that is known.
const tellTime = core.Span(2e9)

// moves reports whether the caller is to be told where its call stands: if it was told another place, or of other waiters, or
// long ago. It notes that.
func (l *lock) moves(w *waiter) bool {
	place, waiting, known := l.place(w)
	now := l.shard.at.Time
	moved := known && (place != w.place || waiting != w.waiting)
	if !moved && now.Since(w.toldAt) < tellTime {
		return false
	}
	if w.toldAt = now; known {
		w.place, w.waiting = place, waiting
	}
	return known
}

// place returns where the call stands among so many that wait. It is not known while neither Redis has said where a ticket before it
// stands, or its own if it has one of its own, nor the lock is held here.
func (l *lock) place(w *waiter) (place, waiting int, known bool) {
	strict := l.kind().core.Strict
	if strict || w.Most != 0 {
		return l.placeOfOwn(w, strict)
	}
	c, at, unticketed := l.shard.audiences[l], 0, 0
	known = l.IsHeld()
	for call := range l.Waiters {
		at++
		before, ok := c.ticketOf(call)
		if ok {
			at = max(at, before+unticketed+1)
		}
		if place == 0 && ok {
			known = true
		}
		if call == &w.Call {
			place = at
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	return place, max(c.tickets+unticketed, at), known && place > 0
}

// placeOfOwn is place for a call that has a ticket of its own: Redis has said where that stands, and the line here may have
// another order. Callers before it that share a ticket count one by one; of a strict lock each takes a ticket, behind it.
func (l *lock) placeOfOwn(w *waiter, strict bool) (place, waiting int, known bool) {
	c, ahead, unticketed := l.shard.audiences[l], 0, 0
	for call := range l.Waiters {
		if call == &w.Call {
			ahead = unticketed
		}
		if call.Tenure == nil {
			unticketed++
		}
	}
	before, ok := c.ticketOf(&w.Call)
	if strict {
		ahead = 0
	}
	place = before + ahead + 1
	return place, max(c.tickets+unticketed, place), ok
}

// ticketOf returns how many tickets stand before that of the call, if that is known.
func (c *audience) ticketOf(call *core.Call) (before int, ok bool) {
	if call.Tenure != nil {
		before, ok = c.before[call.Tenure.ID]
	}
	return before, ok
}

// tellPlace tells the caller where it stands, in its goroutine. If its function panics, or ends the goroutine, the call gives back
// what it was granted, and leaves.
func (l *lock) tellPlace(ctx context.Context, w *waiter) {
	if invariants {
		l.shard.client.witness.outside("a function of WithProgress")
	}
	returned := false
	defer func() {
		if !returned {
			l.abandon(ctx, w)
		}
	}()
	w.req.Progress(w.place, w.waiting)
	returned = true
	l.shard.glance(w.told)
}

// turnTime is how long a call that is granted the lock while the function of its caller runs keeps it for that: other callers
// do not wait for the function. Then the call waits again, behind them.
const turnTime = time.Second

// told notes that the function has returned. The mutex is held.
func (w *waiter) told() {
	w.telling = false
	if w.turn != nil {
		w.turn.Stop()
		w.turn = nil
	}
}

// grantedWhileTold bounds the turn of a call whose goroutine is in the function of its caller. The mutex is held.
func (s *shard) grantedWhileTold(n *Name, w *waiter) {
	var turn *time.Timer
	turn = time.AfterFunc(turnTime, func() { s.client.endTurn(n, w, turn) })
	w.turn = turn
}

// endTurn releases the lock that the call was granted, if its goroutine has not come for it.
func (c *Client) endTurn(n *Name, w *waiter, turn *time.Timer) {
	l, now := c.enter(n, w.Owner)
	if w.turn == turn {
		if was, _, ok := l.Unlock(w.Owner, w.Mode, w.Handle, now); ok { // else it was lost, and its caller learns that
			l.shard.counts.undone(w.req.Way, was.First)
			w.missed = true
		}
	}
	l.shard.exit(l)
}

// waitAgain waits for the lock once more, after the call has missed its turn.
func (c *Client) waitAgain(ctx context.Context, n *Name, w *waiter) error {
	req, h := w.req, w.hold
	if req.Wait < terms.Forever {
		req.Wait = max(req.Wait-time.Duration(c.clock.now().Time.Since(w.Began)), 0)
	}
	if h != nil {
		h.stays = core.Time(req.Least)
	}
	c.done(w)
	return c.acquire(ctx, n, &req, h)
}

// abandon ends a call whose caller does not come back.
func (l *lock) abandon(ctx context.Context, w *waiter) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	c, n, h := l.shard.client, l.name, w.hold
	now := l.shard.take()
	was := w.stage
	w.stage = running
	w.told()
	var err error
	if was == serving {
		l.shard.exit(l)
		w.awaitServed()
		err = c.finished(ctx, n, w)
	} else {
		l.Leave(&w.Call, core.Cancelled, now)
		l.shard.applyAll()
		l.Next(&w.Call, false, now) // it returns
		err = l.ended(ctx, w)
	}
	if h != nil {
		_ = h.begun(err)
	}
}
