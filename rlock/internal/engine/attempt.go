package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

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
	nudging                    // have a free lock granted to the first that waits, then acquiring
)

// attempt sends one command for w, and deals with the answer. The mutex is held before and
// after.
func (r *room) attempt(ctx context.Context, w *waiter, op operation, now time.Time) {
	c := r.client
	t := w.ticket
	switch op {
	case nudging:
		r.tryAfterNudge(ctx, w)
		return
	case acquiring:
		t = c.newTenure(r, w.Request, c.lingerOf(r, &w.Request) > 0 && !r.backsOff(now), now)
	case joining:
		t = r.newTicket(w.Request, now)
	case looking:
		t.phase, t.stale = lookedFor, false
		t.sending(now, c.leaseOf(w.Request))
	}
	w.ticket = t
	r.inFlight++
	r.since = now
	r.shard.mu.Unlock()
	l, flight := t.send(ctx, op, w.Quit)
	r.shard.mu.Lock()

	now = time.Now()
	if flight != nil && flight.leave(&l) {
		w.ticket = nil // its answer is dealt with when it comes
		return
	}
	if l.place != nil && l.err != nil && ctx.Err() != nil && !w.granted {
		landed := l // a copy, so that that of most attempts stays off the heap
		if c.Redis.Start(func() { r.undo(t, landed) }) {
			w.ticket = nil
			return
		}
	}
	if l.late != nil {
		l.late.GiveUp()
	}
	r.inFlight--
	r.settle(t, op, l, now)
	if l.place != nil {
		l.place.Leave()
	}
}

// tryAfterNudge has w try once more, after those that wait for a free lock.
func (r *room) tryAfterNudge(ctx context.Context, w *waiter) {
	r.inFlight++
	r.shard.mu.Unlock()
	err := r.nudge(ctx)
	r.shard.mu.Lock()
	r.inFlight--
	now := time.Now()
	if err == nil {
		r.attempt(ctx, w, acquiring, now)
	} else {
		f, err := wire.Diagnose(err)
		w.failed(f, err, now)
	}
	if w.try == nudgeFirst {
		w.try = noTry
	}
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
	c := r.client
	w := r.waiterWith(t.text)
	f, err := wire.Diagnose(l.err)
	ran := f == wire.Unknown || wire.Begun(l.err) // at least in part: what comes last may be refused
	a := l.answer
	if w == nil { // it left, or has the lock by another tenure
		if err != nil && ran && op != looking {
			t.ghost = !l.settled
		}
		if err != nil && !ran && op != looking {
			t.end()
		} else if err == nil && op == acquiring && !a.Granted {
			t.end()
		} else {
			t.disown(now)
		}
		return
	}
	if a.Granted {
		t.trust.Confirmed()
	}
	stale := t.stale
	t.stale = false
	switch {
	case err != nil && op == looking:
		t.phase = queued
		if ran {
			t.unanswered()
		}
		w.failed(f, err, now)
	case err != nil:
		w.ticket = nil
		if ran {
			t.ghost = !l.settled
			t.disown(now)
		} else {
			t.end()
		}
		w.failed(f, err, now)
	case a.Refused != nil:
		w.ticket = nil
		if a.Released {
			t.end()
		} else {
			t.disown(now)
		}
		f, err := wire.Diagnose(a.Refused)
		w.failed(f, err, now)
	case a.Granted && op == joining && !r.worthTaking(t, now): // see take
		t.phase, t.trust, w.lookAt = queued, lease.Trust{}, now
	case a.Granted:
		w.ticket = nil
		t.tokens.take(a.Counter, t.tokens.asked())
		switch {
		case c.Closed.Load():
			t.disown(now)
		case !t.trust.Valid(now):
			t.disown(now)
			w.failed(wire.NotNow, fmt.Errorf("the grant came after %v, when its lease was nearly over", now.Sub(t.trust.SentAt()).Round(time.Millisecond)), now)
		default:
			t.claimed = op == joining
			way := ByQueue
			switch op {
			case acquiring:
				way = ByRedis
			case looking:
				t.contestedAt = now // it was freed for others
			}
			r.grant(t, w, way, now)
			w.Wake()
		}
	case op == acquiring:
		w.ticket = nil
		t.end()
		w.err, w.fails, w.shut, w.holder = nil, 0, time.Time{}, a.Holder
		switch {
		case a.Holder == "" && w.Wait <= 0 && w.try < nudgeFirst:
			w.try = nudgeFirst
		case wire.Lingers(a.Holder) && !w.queues(now) && w.try < callFirst:
			w.try, w.again = callFirst, now.Add(c.callTime(now.Sub(t.trust.SentAt())))
		default:
			w.try = noTry
		}
		r.met(a.Holder, &w.Request, now)
		if w.Wait > 0 {
			r.subscribe()
		}
	case a.Place == wire.NoPlace: // Redis has lost it
		w.ticket = nil
		t.end()
	default:
		t.phase = queued
		t.seen = t.trust.SentAt()
		t.trust = lease.Trust{}
		w.err, w.fails, w.shut = nil, 0, time.Time{}
		r.placed(w, a, now)
		if stale {
			w.lookAt = now
		}
	}
}

// placed notes where a ticket stands in the queue, and when to look for it again.
func (r *room) placed(w *waiter, a wire.Answer, now time.Time) {
	w.holder = a.Holder
	r.met(a.Holder, &w.Request, now)
	sleep := lookTime
	if a.TTL >= 0 { // the holder, and those before this ticket, may be dead
		left := min(wire.Milliseconds(a.TTL), sleep)
		sleep = min(sleep, left+time.Millisecond+wire.Jitter(min(left/10, 20*time.Millisecond)))
	}
	if a.Window >= 0 && (a.Place >= wire.FirstPlace || w.shared) {
		sleep = min(sleep, wire.Milliseconds(a.Window)+time.Millisecond)
	}
	if a.Place >= wire.FirstPlace {
		guestHolds := a.Holder != "" && !wire.IsOurs(a.Holder)
		if a.Window >= 0 || guestHolds {
			r.usher()
		}
		if guestHolds {
			sleep = min(sleep, w.followGuest(a.TTL, now))
		}
	}
	if w.ticket.polls {
		w.polls++
		sleep = min(sleep, wire.Jitter(min(firstPoll<<min(w.polls-1, 10), lastPoll)))
	}
	w.lookAt = now.Add(sleep)
	if a.Place == wire.YieldsPlace {
		r.giveWay()
	}
}

// undo releases what a command may have been granted, or may be yet, whose caller has left
// while it was in flight. If the command has no answer, but the client's commands are
// ordered, the release comes behind it on its connection, so that the answer to the release
// settles both: until then the command keeps its place, and the next try for the name
// waits. After a direct command no release comes on its connection: it waits for the answer
// first. It runs in a goroutine of its own.
func (r *room) undo(t *tenure, l landing) {
	c := r.client
	ctx := c.Redis.Deadline(time.Now())
	if l.late != nil {
		l.settled = l.late.Settled(ctx)
	}
	released, err := c.Redis.Do(ctx, t.releaseCall()).AsInt64()
	l.place.Leave()
	if err == nil && c.Redis.Ordered() && c.Redis.Mark() == l.mark {
		l.settled = true
	}

	r.shard.mu.Lock()
	r.inFlight--
	if err != nil || released == 0 && !l.settled {
		t.ghost = !l.settled
		t.disown(time.Now())
	} else {
		t.end()
	}
	r.wakeHead()
	r.exit()
}

// A landing is what became of a command that was sent.
type landing struct {
	place  *wire.Limit // to be left; nil if nothing was sent
	answer wire.Answer
	err    error
	// mark is that of the connections when it was sent, 0 if it was sent directly.
	mark uint64
	// late is the answer to a direct command that its caller has not waited for, else nil.
	late *wire.Late
	// settled is set once the command has been executed, or never will be.
	settled bool
}

// A flight is a command in a goroutine of its own, so that its caller may leave.
type flight struct {
	landed chan landing // capacity one

	// The shard's mutex protects following.

	abandoned bool // the caller has left
}

// leave has the flight undone when it lands, and reports true, unless it has landed
// already: then it fills in l. The mutex is held.
func (f *flight) leave(l *landing) bool {
	select {
	case *l = <-f.landed:
		return false
	default:
		f.abandoned = true
		return true
	}
}

// send sends the command for a caller that leaves when ctx ends, or while there is no place
// when quit is closed. If the caller leaves a flight behind, that is returned.
//
// A flight goes on until its answer is in, whatever becomes of its caller. If it has
// to wait for a connection, rueidis opens that with its context, and an end of it would
// fail all commands that wait for the same connection. And where the client's
// commands have no order, no release is known to come behind a command that was
// cancelled.
func (t *tenure) send(ctx context.Context, op operation, quit <-chan struct{}) (landing, *flight) {
	c := t.room.client
	place, err := c.Redis.Limits(t.room.name.Slot).Asks.Enter(ctx, quit)
	if err != nil {
		return landing{err: err}, nil
	}
	if ctx.Done() == nil || c.Redis.Connected() && c.Redis.Ordered() {
		return t.exchange(ctx, op, place), nil
	}
	f := &flight{landed: make(chan landing, 1)}
	if !c.Redis.Start(func() { t.fly(op, place, f) }) {
		place.Leave()
		return landing{err: rueidis.ErrClosing}, nil
	}
	select {
	case l := <-f.landed:
		return l, nil
	case <-ctx.Done():
		return landing{}, f
	}
}

// fly is the goroutine of a flight.
func (t *tenure) fly(op operation, p *wire.Limit, f *flight) {
	r := t.room
	ctx := r.client.Redis.Deadline(time.Now())
	l := t.exchange(ctx, op, p)
	if !l.settled && ctx.Err() != nil {
		l.err = wire.ErrNoAnswer
	}
	r.shard.mu.Lock()
	if !f.abandoned {
		f.landed <- l
		r.shard.mu.Unlock()
		return
	}
	r.shard.mu.Unlock()
	r.undo(t, l)
}

// exchange sends the command and reads the answer. It is called without the mutex.
func (t *tenure) exchange(ctx context.Context, op operation, p *wire.Limit) (l landing) {
	c := t.room.client
	l.place = p
	call, read := t.command(op)
	if c.Redis.SyncReplicas() > 0 && op != joining {
		l.mark = c.Redis.Mark()
		l.answer, l.err = c.Redis.DoReplicated(ctx, call, t.lease, func(result rueidis.RedisResult) (wire.Answer, error) {
			return read(result, t.tokens.asked())
		}, t.releaseCall())
		l.settled = wire.Answered(l.err)
	} else {
		var result rueidis.RedisResult
		if op == acquiring {
			result, l.mark, l.late = c.Redis.DoFirst(ctx, t.room.name.Slot, t.trust.SentAt(), call)
		} else {
			l.mark = c.Redis.Mark()
			result = c.Redis.Do(ctx, call)
		}
		l.answer, l.err = read(result, t.tokens.asked())
		if l.settled = wire.Answered(l.err); l.settled && l.mark != 0 {
			c.Redis.Heard(l.mark)
		}
	}
	if l.settled {
		p.Heard()
	}
	return l
}

// command returns the call and how its answer is read.
func (t *tenure) command(op operation) (wire.Call, func(rueidis.RedisResult, uint64) (wire.Answer, error)) {
	n, c := t.room.name, t.room.client
	s := wire.Step{}
	switch op {
	case joining:
		s.Join = t.member()
	case looking:
		s.Look = t.member()
	default:
		return n.kind().acquire(t), wire.ReadAcquire
	}
	return n.step(c, s, t.lease, t.tokens.asked()), wire.ReadStep
}

// open has Redis let readers in that wait there, since the write lock was given up and
// reading goes on. If it is not answered they look by themselves.
func (r *room) open() {
	c := r.client
	r.escaped = true // the goroutine may outlast every caller
	c.Redis.Start(func() { _ = r.nudge(c.Redis.Deadline(time.Now())) })
}

// nudge has Redis grant a lock that is free to the first in the queue that is there, or find
// that nobody is: a queue of dead clients would refuse a free lock until it expires.
func (r *room) nudge(ctx context.Context) error {
	return r.client.Redis.Do(ctx, r.name.step(r.client, wire.Step{}, 0, 0)).Error()
}
