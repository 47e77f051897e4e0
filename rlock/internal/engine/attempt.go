package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// An operation is a command that a waiter sends about the lock.
type operation uint8

const (
	resting   operation = iota // none
	acquiring                  // take the lock if it is free and nobody waits for it
	joining                    // put a new ticket into the queue
	looking                    // look for the ticket, and keep it fresh
	nudging                    // have the lock granted to the first that waits for it
)

// attempt sends one command for w, and deals with the answer. The mutex is held before and
// after.
func (r *room) attempt(ctx context.Context, w *waiter, op operation, now time.Time) {
	if op == nudging {
		r.sendNudge(ctx, w)
		return
	}
	t := r.tenureFor(w, op, now)
	w.ticket = t
	r.inFlight++
	r.since = now
	r.shard.mu.Unlock()
	l, left := t.send(ctx, op, w.Quit)
	r.shard.mu.Lock()

	if left || l.place != nil && l.err != nil && ctx.Err() != nil && !w.granted && r.startUndo(t, l) {
		w.ticket = nil // its answer is dealt with when it comes
		return
	}
	if l.late != nil {
		l.late.GiveUp()
	}
	r.landed(w)
	r.settle(t, op, l, time.Now())
	if w.fails > 0 && !w.fatal {
		r.client.TellTrouble(r.name.Key, w.since, w.err)
	}
	if l.place != nil {
		l.place.Leave()
	}
}

// landed notes that the command of w is answered. The head of the queue has waited for that, if
// it is another: a writer may have given way to readers, and a ticket is looked for wherever
// its waiter stands.
func (r *room) landed(w *waiter) {
	r.inFlight--
	if r.head() != w {
		r.wakeHead()
	}
}

// tenureFor returns the tenure that the command is about: w's ticket, or a new one.
func (r *room) tenureFor(w *waiter, op operation, now time.Time) *tenure {
	c := r.client
	switch op {
	case acquiring:
		return c.newTenure(r, w.Request, w.try == firstTry && c.lingerOf(r, &w.Request) > 0 && !r.backsOff(now), now)
	case joining:
		return r.newTicket(w.Request, now)
	}
	t := w.ticket
	t.phase, t.stale = lookedFor, false
	t.heard, r.heard = r.heard, false
	t.sending(now, c.leaseOf(w.Request))
	return t
}

// sendNudge has Redis grant a lock that is free to the first that waits for it, since w's
// acquire was denied though nobody had the lock. If an unwanted tenure of this client had
// it, that one leaves first: its own release may be late. The mutex is held before and
// after. The acquire that follows is an attempt of its own, since the client may have been
// closed meanwhile.
func (r *room) sendNudge(ctx context.Context, w *waiter) {
	var leaves wire.Member
	if t := r.unwantedHolder(w.holder); t != nil {
		leaves = t.member()
	}
	r.inFlight++
	r.shard.mu.Unlock()
	err := r.nudge(ctx, leaves)
	r.shard.mu.Lock()
	r.landed(w)
	w.try = nudged
	if err != nil {
		w.failed(err, time.Now())
	}
}

// unwantedHolder returns the tenure that Redis shows as the holder, nil unless the keeper is
// to release it. The release that an Unlock has in flight reports what Redis had, and no other
// command may come before it.
func (r *room) unwantedHolder(owner string) *tenure {
	if t := r.shard.leavingAs(owner); t != nil && t.phase == releasing {
		return t
	}
	return nil
}

// newTicket returns a tenure that is about to join the queue.
func (r *room) newTicket(req Request, now time.Time) *tenure {
	if r.client.lingerOf(r, &req) > 0 {
		r.contendedFor(now)
	}
	t := r.client.newTenure(r, req, false, now)
	t.phase = joins
	t.polls = !r.listening()
	t.claimed = true
	t.seen = now
	t.sending(now, claimLease)
	r.escaped = true
	return t
}

// settle deals with the answer to the command that was sent for t: the waiter has the lock,
// or its ticket a place in the queue, or it must try again.
func (r *room) settle(t *tenure, op operation, l landing, now time.Time) {
	w, a := r.waiterWith(t.text), l.answer
	fault, _ := wire.Diagnose(l.err)
	// Whether the command may have been executed, at least in part: what comes last may be
	// refused. An acquire takes back what it has written.
	ran := fault == wire.Unknown || op != acquiring && wire.Begun(l.err)
	if w == nil {
		t.unwanted(op, l, ran, now)
		return
	}
	switch {
	case l.err != nil && op == looking:
		t.phase = queued
		if ran {
			t.unanswered()
		}
		w.failed(l.err, now)
	case l.err != nil:
		w.ticket = nil
		t.giveUp(ran, l.settled, now)
		w.failed(l.err, now)
	case a.Refused != nil:
		w.ticket = nil
		t.giveUp(!a.Released, true, now)
		w.failed(a.Refused, now)
	case a.Granted:
		r.granted(w, op, a, now)
	case op == acquiring:
		r.denied(w, a, now)
	case a.Place == wire.NoPlace: // Redis has lost it
		w.ticket = nil
		t.end()
	default:
		r.placed(w, op, a, now)
	}
}

// unwanted is settle for a tenure whose waiter has left, or has the lock by another one.
func (t *tenure) unwanted(op operation, l landing, ran bool, now time.Time) {
	switch {
	case l.err != nil && op != looking:
		t.giveUp(ran, l.settled, now)
	case l.err == nil && op == acquiring && !l.answer.Granted:
		t.end()
	default:
		t.disown(now)
	}
}

// giveUp ends a tenure that nobody wants once its command has landed. If Redis may have run
// the command, or may yet, unless it is settled, the keeper releases the tenure.
func (t *tenure) giveUp(ran, settled bool, now time.Time) {
	if !ran {
		t.end()
		return
	}
	t.ghost = !settled
	t.disown(now)
}

// granted gives w the lock that Redis has granted to its tenure.
func (r *room) granted(w *waiter, op operation, a wire.Answer, now time.Time) {
	t := w.ticket
	t.trust.Confirmed()
	if op == joining && !r.worthTaking(t, now) { // see take
		t.phase, t.trust, w.lookAt = queued, lease.Trust{}, now
		return
	}
	w.ticket = nil
	t.tokens.take(a.Counter, t.tokens.asked())
	switch {
	case r.client.Closed.Load():
		t.disown(now)
		return
	case !t.trust.Valid(now):
		t.disown(now)
		w.failed(fmt.Errorf("the grant came after %v, when its lease was nearly over", now.Sub(t.trust.SentAt()).Round(time.Millisecond)), now)
		return
	}
	t.claimed = op == joining
	way := ByQueue
	switch op {
	case acquiring:
		way = ByRedis
	case looking:
		t.contestedAt = now // it was freed for others
	}
	r.grant(t, w, way, now)
}

// denied notes that w's acquire was denied, and what it may still do without a ticket.
func (r *room) denied(w *waiter, a wire.Answer, now time.Time) {
	t := w.ticket
	w.ticket = nil
	t.end()
	w.answered(a)
	r.met(a.Holder, &w.Request, now)
	switch {
	case (a.Holder == "" || r.unwantedHolder(a.Holder) != nil) && w.Wait <= 0 && w.try < nudgeFirst:
		w.try = nudgeFirst
	case wire.Lingers(a.Holder) && w.try < callFirst:
		w.try, w.rest = callFirst, now.Add(r.client.callTime(now.Sub(t.trust.SentAt()), w.queues(now)))
	default:
		w.try = noTry
	}
	if w.Wait > 0 {
		r.subscribe()
	}
}

// placed notes where w's ticket stands in the queue, and when to look for it again.
func (r *room) placed(w *waiter, op operation, a wire.Answer, now time.Time) {
	t := w.ticket
	t.phase = queued
	t.seen = t.trust.SentAt()
	t.trust = lease.Trust{}
	w.answered(a)
	r.met(a.Holder, &w.Request, now)
	w.lookAt = now.Add(r.lookAfter(w, a, now))
	if a.HeldBack == 0 && !w.Shared {
		r.giveWay()
	}
	if t.stale {
		w.lookAt = now
		if op == joining && w.grant.Ticket == t.text { // it joined before it was granted
			r.take(w, w.grant, now)
		}
	}
}

// lookAfter returns how long to wait until w's ticket, which stands in the queue as a says, is
// looked for again.
func (r *room) lookAfter(w *waiter, a wire.Answer, now time.Time) time.Duration {
	sleep := lookTime
	if a.TTL >= 0 { // the holder, and those before this ticket, may be dead
		left := min(wire.Milliseconds(a.TTL), sleep)
		sleep = min(sleep, left+time.Millisecond+wire.Jitter(min(left/10, 20*time.Millisecond)))
	}
	if a.HeldBack > 0 { // readers may begin then
		sleep = min(sleep, wire.Milliseconds(a.HeldBack)+time.Millisecond)
	}
	if a.Place == wire.FirstPlace {
		if a.Turn >= 0 {
			sleep = min(sleep, watchTurn(a.Turn))
		}
		foreign := a.Holder != "" && !wire.IsOurs(a.Holder)
		if a.Turn >= 0 || foreign {
			r.listen()
		}
		if foreign {
			sleep = min(sleep, r.followForeign(w, a.TTL, now))
		}
	}
	if w.ticket.polls {
		w.polls++
		sleep = min(sleep, wire.Jitter(min(firstPoll<<min(w.polls-1, 10), lastPoll)))
	}
	return sleep
}

// open has Redis let readers in that wait there, since the write lock was given up and
// reading goes on. If it is not answered they look by themselves.
func (r *room) open() {
	c := r.client
	r.escaped = true // the goroutine may outlast every caller
	c.Redis.Start(func() { _ = r.nudge(c.Redis.Deadline(time.Now()), wire.Member{}) })
}

// nudge has a member leave, the zero Member for none, and then Redis grant a lock that is free
// to the first in the queue that is there, or find that nobody is: a queue of dead clients
// would refuse a free lock until it expires.
func (r *room) nudge(ctx context.Context, leaves wire.Member) error {
	return r.client.Redis.Do(ctx, r.name.step(r.client, wire.Step{Leave: leaves}, 0, 0)).Error()
}
