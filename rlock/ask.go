package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// ask sends the acquire of w, who may ask, and deals with the answer: a tenure, the
// holder's pttl, or an error. The mutex is held before and after.
func (r *room) ask(ctx context.Context, w *waiter, now time.Time) {
	c, v := r.client, &w.Value
	t := r.ticket(v, now)
	news := r.news(now, true)
	news.unqueued, news.waits = t.queued == nil, v.waitsOn(ctx, now)
	r.busy++
	r.since = now
	called := t.called
	v.asking, t.asks, t.called = true, true, false // only a message that comes meanwhile is news to the answer
	r.shard.mu.Unlock()
	l, flight := t.ask(ctx, news, v.quit)
	r.shard.mu.Lock()

	now = time.Now()
	v.asking, v.due = false, false
	if flight != nil && flight.leave(&l) {
		v.ticket = nil // its answer is dealt with when it comes
		return
	}
	if l.place != nil && l.err != nil && ctx.Err() != nil && !v.granted {
		told, landed := news, l // copies, so that those of most asks stay off the heap
		if c.background.start(func() { r.undo(t, told, landed) }) {
			v.ticket = nil
			return
		}
	}
	r.busy--
	defer func() {
		if v.ticket != nil && v.ticket.phase != asking {
			v.ticket = nil
		}
	}()
	place, a := l.place, l.answer
	f, err := diagnose(l.err)
	ran := f == unknown || r.line != nil && begun(l.err)
	t.asks = false
	r.told(news, l)
	switch {
	case v.granted && t.phase == asking && (a.granted || err != nil && ran):
		t.disown(now) // the lock was passed on to it meanwhile, and it needs no other
	case v.granted:
		r.leave(t, now)
	case err != nil && ctx.Err() != nil:
		r.leave(t, now)
	case err != nil:
		t.called = t.called || called
		v.failed(f, err)
		switch {
		case t.phase != asking:
		case t.queued != nil: // it stands in line, and asks again
			if ran {
				t.unanswered()
			}
		case ran:
			t.ghost = !l.settled
			t.disown(now)
		default:
			t.end()
		}
	case !a.granted:
		v.err, v.fails, v.shut = nil, 0, time.Time{}
		if v.wait > 0 {
			r.subscribe()
		}
		v.sleep = r.patience(v, a.ttl)
		if a.holder != "" {
			r.met(a.holder, now)
		}
		if v.shared { // by a writer, so who was let pass has come
			r.behind, r.absent = 0, 0
		}
		r.denied(w, now)
		if a.giveWay {
			r.giveWay()
		}
	case a.refused != nil:
		if a.released {
			t.end()
		} else {
			t.disown(now)
		}
		v.failed(diagnose(a.refused))
	default:
		t.trust.Confirmed()
		t.tokens.take(a.counter)
		switch {
		case c.closed.Load():
			t.disown(now)
		case !t.trust.Valid(now):
			t.disown(now)
			v.failed(notNow, fmt.Errorf("the grant came after %v, when its lease was nearly over", now.Sub(t.trust.SentAt()).Round(time.Millisecond)))
		default:
			r.ahead(now)
			r.grant(t, w, now)
		}
	}
	if r.line != nil {
		r.line.next = now.Add(v.sleep)
		if head := r.queue.Head(); head != nil && head != w {
			head.Wake() // it could not ask while another did
		}
	}
	if place != nil {
		place.leave()
	}
}

// ticket returns the tenure that v asks for.
func (r *room) ticket(v *visit, now time.Time) *tenure {
	if t := v.ticket; t != nil && t.phase == asking {
		t.sending(now, r.client.leaseOf(v.request))
		return t
	}
	v.ticket = r.client.newTenure(r, v.request, now)
	return v.ticket
}

// undo releases what an acquire may have been granted, or may be yet, whose
// caller has left while it was in flight. If the acquire has no answer, but the
// client's commands are ordered, the release comes behind it on its connection, so
// that the answer to the release settles both: until then the acquire keeps its
// place, and the next try for the name waits. It runs in a goroutine of its own.
func (r *room) undo(t *tenure, n news, l landing) {
	c := r.client
	released, err := t.releaseCall(news{}).do(c.deadline.context(time.Now()), c.redis).AsInt64()
	l.place.leave()
	if err == nil && c.ordered() && c.wires.mark() == l.mark {
		l.settled = true
	}

	r.shard.mu.Lock()
	r.busy--
	t.asks = false
	r.told(n, l)
	switch {
	case t.phase == ended: // the server refused the command before it ran, so Redis knows nothing of it
	case err != nil || released == 0 && !l.settled:
		t.ghost = !l.settled
		t.disown(time.Now())
	default:
		t.end()
	}
	r.wakeHead()
	r.exit()
}

// An answer is what Redis says to an acquire.
type answer struct {
	granted bool
	counter uint64   // of the fencing tokens, if granted; 0 for a lock without
	ttl     int64    // of the holder's lease in milliseconds, if not granted; -1 for none
	holder  string   // its owner, if not granted
	lost    []string // the tickets that are not in the queue though they wait
	giveWay bool     // readers have a turn, which the writer who asked lets them have

	refused  error // the grant does not count, and why: too few replicas have it
	released bool  // and Redis has taken it back
}

// answerTo reads what Redis says to the tenure's acquire.
func (t *tenure) answerTo(result rueidis.RedisResult) (answer, error) {
	if t.tokens != nil {
		if counter, err := result.ToString(); err == nil {
			return t.tokens.granted(counter)
		}
	}
	denial, err := result.ToArray()
	if rueidis.IsRedisNil(err) && t.tokens == nil {
		return answer{granted: true}, nil
	}
	var a answer
	if err == nil && len(denial) < 2 {
		err = fmt.Errorf("an acquire was answered with %d values, not 2 or more", len(denial))
	}
	if err == nil {
		a.ttl, err = denial[0].AsInt64()
	}
	if err == nil {
		a.holder, err = denial[1].ToString()
	}
	if a.giveWay = len(denial) > 2 && denial[2].IsInt64(); a.giveWay {
		return a, err
	}
	for i := 2; err == nil && i < len(denial); i++ {
		var ticket string
		ticket, err = denial[i].ToString()
		a.lost = append(a.lost, ticket)
	}
	return a, err
}

// A landing is what became of an acquire that was sent.
type landing struct {
	place  place // to be left; nil if nothing was sent
	answer answer
	err    error
	// mark is that of the connections when it was sent.
	mark uint64
	// settled is set once the acquire has been executed, or never will be.
	settled bool
}

// A flight is an acquire in a goroutine of its own, so that its caller may leave.
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

// errNoAnswer is the fault of a flight that has no answer in the time that an Unlock has.
var errNoAnswer = errors.New("no answer in time")

// ask is acquire for a caller who leaves when ctx ends, or while there is no place when
// quit is closed. If the caller leaves a flight behind, that is returned.
//
// A flight goes on until its answer is in, whatever becomes of its caller. If it has
// to wait for a connection, rueidis opens that with its context, and an end of it would
// fail the commands of all who wait for the same connection. And where the client's
// commands have no order, no release is known to come behind an acquire that was
// cancelled.
func (t *tenure) ask(ctx context.Context, n news, quit <-chan struct{}) (landing, *flight) {
	c := t.room.client
	place, err := c.nodes.to(t.room.name.slot).asks.enter(ctx, quit)
	if err != nil {
		return landing{err: err}, nil
	}
	if ctx.Done() == nil || c.wires.up() && c.ordered() {
		return t.acquire(ctx, n, place), nil
	}
	f := &flight{landed: make(chan landing, 1)}
	if !c.background.start(func() { t.fly(n, place, f) }) {
		place.leave()
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
func (t *tenure) fly(n news, p place, f *flight) {
	r := t.room
	ctx := r.client.deadline.context(time.Now())
	l := t.acquire(ctx, n, p)
	if !l.settled && ctx.Err() != nil {
		l.err = errNoAnswer
	}
	r.shard.mu.Lock()
	if !f.abandoned {
		f.landed <- l
		r.shard.mu.Unlock()
		return
	}
	r.shard.mu.Unlock()
	r.undo(t, n, l)
}

// acquire sends the script. It is called without the mutex, once for a tenure.
func (t *tenure) acquire(ctx context.Context, news news, p place) (l landing) {
	c, n := t.room.client, t.room.name
	l.place = p
	script := n.kind().acquire(t, news)
	l.mark = c.wires.mark()
	if c.config.SyncReplicas > 0 {
		l.answer, l.err = t.acquireReplicated(ctx, script)
		l.settled = answered(l.err)
	} else {
		l.answer, l.err = t.answerTo(script.do(ctx, c.redis))
		if l.settled = answered(l.err); l.settled {
			c.wires.heard(l.mark)
		}
	}
	return l
}
