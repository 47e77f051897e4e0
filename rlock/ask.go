package rlock

import (
	"context"
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
	l, flight := t.ask(ctx, news)
	r.shard.mu.Lock()

	now = time.Now()
	r.busy--
	v.asking, v.due = false, false
	defer func() {
		if v.ticket != nil && v.ticket.phase != asking {
			v.ticket = nil
		}
	}()
	place, a := l.place, l.answer
	f, err := diagnose(l.err)
	ran := f == unknown || r.line != nil && begun(l.err)
	if flight != nil || place != nil && err != nil && ctx.Err() != nil && !v.granted {
		r.busy++
		v.ticket = nil
		told, landed := news, l // copies, so that those of most asks stay off the heap
		c.background.Go(func() {
			if flight != nil {
				landed = <-flight
			}
			r.undo(t, told, landed)
		})
		return
	}
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
			t.ghost = true
			t.disown(now)
		default:
			t.end()
		}
	case !a.granted:
		v.err, v.fails = nil, 0
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
// caller has left while it was in flight. If the client's commands are ordered
// the release comes behind the acquire, so that its answer is the answer to
// both: until then the acquire keeps its place, and the next try for the name
// waits. It runs in a goroutine of its own.
func (r *room) undo(t *tenure, n news, l landing) {
	c := r.client
	var released int64
	err := l.err
	if l.place != nil {
		released, err = t.releaseCall(news{}).do(c.deadline.context(time.Now()), c.redis).AsInt64()
		l.place.leave()
	}

	r.shard.mu.Lock()
	r.busy--
	t.asks = false
	r.told(n, l)
	switch {
	case l.place == nil:
		r.leave(t, time.Now()) // it may stand in line since before
	case err != nil || released == 0 && !c.ordered():
		t.ghost = true
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
}

// ask is acquire for a caller who leaves when ctx ends: then flight, if it is not
// nil, is where the acquire lands later.
func (t *tenure) ask(ctx context.Context, n news) (l landing, flight <-chan landing) {
	if ctx.Done() == nil || t.room.client.wires.up() {
		return t.acquire(ctx, n), nil
	}
	landed := make(chan landing, 1)
	go t.land(ctx, n, landed)
	select {
	case l = <-landed:
		return l, nil
	case <-ctx.Done():
	}
	select {
	case l = <-landed:
		return l, nil
	default:
		return landing{}, landed
	}
}

func (t *tenure) land(ctx context.Context, n news, landed chan<- landing) {
	landed <- t.acquire(ctx, n)
}

// acquire sends the script. It is called without the mutex, once for a tenure.
func (t *tenure) acquire(ctx context.Context, news news) (l landing) {
	c, n := t.room.client, t.room.name
	if l.place, l.err = c.nodes.enter(ctx, n.slot); l.err != nil {
		return l
	}
	script := n.kind().acquire(t, news)
	if c.config.SyncReplicas > 0 {
		l.answer, l.err = t.acquireReplicated(ctx, script)
		return l
	}
	mark := c.wires.mark()
	l.answer, l.err = t.answerTo(script.do(ctx, c.redis))
	if answered(l.err) {
		c.wires.heard(mark)
	}
	return l
}
