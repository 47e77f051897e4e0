package rlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/pubsub"
)

// How the waiters of a fair lock stand in one line over all clients.
//
// A ticket is a tenure made in advance, in the phase asking: its text stands in the
// queue in Redis for the waiter who has it, until Redis makes it the owner. Who comes
// first in the local queue came first in Redis' as well.
//
//	made ----> telling ----> queued ----> held
//	  ^           |             |  lost there      (begin)
//	  |           | no answer   v
//	  +-----------+------- given up
//
// The message of a grant says which ticket has the lock. It does not say when the
// lease began. But it began after the ticket was last found in the queue, and that was
// after the command was sent which found it: so from then the lease of a claim is
// counted, and a hold may begin without a command (locks-and-leases, A.5.4). For this
// to be sound no ticket may come into the queue twice, since the message of its first
// grant might be yet to come. So it is told to join by one command only; if that is
// not answered, or Redis has lost the ticket, the waiter gets another.

const (
	// tellTime is how long a waiter waits at least for a command to ride with, so that
	// one tells of many, before the head of the local queue sends one. In a long queue
	// it is a quarter of the wait.
	tellTime = 25 * time.Millisecond
	// beat is how often a client says who waits. It keeps the tickets' claims fresh,
	// and finds grants and releases whose message was lost.
	beat = claimLease / 4
	// queueTime is how long the queue is kept without a word of anybody. It is a part of
	// the protocol: fair.lua says the same.
	queueTime = time.Minute
	// toldTogether is how many tickets of each sort one command tells of. Those at
	// the end of a longer queue are told of later.
	toldTogether = 128
)

// A line is what the room of a fair lock knows of the queue in Redis. The shard's mutex protects it.
type line struct {
	// grants is the subscription to this client's channel of the lock.
	grants *pubsub.Subscription
	// left are tickets whose waiters are gone, and that Redis was not told of yet.
	// The keeper tells it if no command of the room does.
	left []*tenure
	// overdue is set when somebody has waited for tellTime to be told of.
	overdue bool
	// next is when the head asks again, to say who waits.
	next time.Time
	// waited is how long the last one here waited for the lock.
	waited time.Duration
}

// news is what a command tells Redis of who waits in a room.
type news struct {
	sentAt                *time.Time // shared by the tickets that it tells of
	left, joined, waiting []*tenure
	leaving               int           // how many of texts leave
	texts                 []string      // of all of them, in this order
	unqueued              bool          // who asks does not stand in the queue
	waits                 time.Duration // how long who asks waits on if it is denied, 0 for not
}

// news collects it for the command that is about to be sent; who stands in the queue
// already is named if all is set.
func (r *room) news(now time.Time, all bool) (n news) {
	if r.line == nil {
		return n
	}
	sentAt := now // a copy, so that now stays off the heap
	n.sentAt = &sentAt
	n.left, r.line.left = r.line.left, nil
	if r.listening() { // or a grant would not be heard
		r.count(&n, all)
	}
	n.leaving = len(n.left)
	for _, tickets := range [][]*tenure{n.left, n.joined, n.waiting} {
		for _, t := range tickets {
			n.texts = append(n.texts, t.text)
		}
	}
	return n
}

func (r *room) count(n *news, all bool) {
	for w := range r.queue.All {
		v := &w.Value
		switch t := v.ticket; {
		case v.wait <= 0 || v.asking:
		case t == nil || t.phase != asking:
			v.ticket = r.client.newTenure(r, v.request, *n.sentAt)
			n.joined = append(n.joined, v.ticket)
			v.due = false
		case t.queued == nil:
			n.joined = append(n.joined, t)
			v.due = false
		case all && !t.telling && len(n.waiting) < toldTogether:
			n.waiting = append(n.waiting, t)
		}
		if len(n.joined) == toldTogether {
			break
		}
	}
	for _, t := range n.joined {
		t.queued, t.telling = n.sentAt, true
		r.pointedTo = true
	}
	r.line.overdue = len(n.joined) == toldTogether
}

// told deals with the answer to a command that had news.
func (r *room) told(n news, l landing) {
	if r.line == nil {
		return
	}
	now := time.Now()
	f, _ := diagnose(l.err)
	executed := f == unknown || begun(l.err) // at least in part: what comes last may be refused
	switch {
	case l.err == nil:
		for _, t := range n.left {
			if t.phase == releasing {
				t.end()
			}
		}
		for _, t := range n.joined {
			if t.telling = false; t.unwanted {
				r.leave(t, now)
			}
		}
		r.found(n, l.answer)
		return
	case !executed:
		r.line.left = append(n.left, r.line.left...)
	}
	for _, t := range n.joined {
		t.telling = false
		switch {
		case t.phase != asking || t.asks:
		case executed:
			t.ghost = !l.settled
			t.disown(now)
		default:
			if t.queued = nil; t.unwanted {
				r.leave(t, now)
			}
		}
	}
	r.line.overdue = len(n.joined) > 0
}

// found notes which of the tickets that wait Redis has in its queue.
func (r *room) found(n news, a answer) {
	if a.granted {
		return // it has not looked
	}
	lost := make(map[string]bool, len(a.lost))
	for _, text := range a.lost {
		lost[text] = true
	}
	for _, t := range n.waiting {
		switch {
		case t.phase != asking || t.asks || t.text == a.holder:
		case lost[t.text]:
			r.line.overdue = true
			t.end()
		default:
			t.queued = n.sentAt
		}
	}
}

// inLine reports whether Redis has been told of the waiter, or is being told.
func (v *visit) inLine() bool {
	return v.ticket != nil && v.ticket.phase == asking && v.ticket.queued != nil
}

// leave gives up a ticket whose waiter is gone, at once: it may be the next to have
// the lock.
func (r *room) leave(t *tenure, now time.Time) {
	switch {
	case t == nil || t.phase != asking:
	case t.telling || t.asks:
		t.unwanted = true // and leaves behind the command that tells of it
	case t.queued == nil:
		t.end() // Redis knows nothing of it
	default:
		t.disown(now)
	}
}

// spare gives up a ticket whose waiter has the lock by another. Until this is freed
// the ticket has no chance, so that it leaves along with that.
func (r *room) spare(t *tenure, now time.Time) {
	if t != nil && t.phase == asking && t.queued != nil && !t.telling && !t.asks {
		t.disownBy(now, tellTime)
		r.line.left = append(r.line.left, t)
		return
	}
	r.leave(t, now)
}

// listen makes sure that the grants of the lock to this client are heard. It needs
// the subscription to the lock's channel.
func (r *room) listen() {
	if c, n := r.client, r.name; r.line != nil && r.line.grants == nil {
		r.line.grants = r.sub.Also(n.grants+c.id.prefix, func(grant string) {
			if ticket, lock, _ := strings.Cut(grant, " "); lock == n.key {
				r := c.enter(n)
				r.granted(ticket, time.Now())
				r.exit()
			}
		})
	}
}

func (r *room) listening() bool { return r.line.grants != nil && r.line.grants.Confirmed() }

// deaf returns why grants will never be heard, nil if they may be.
func (r *room) deaf() error {
	if r.line.grants == nil {
		return nil
	}
	refusal := (*pubsub.Refusal)(nil)
	if !errors.As(r.line.grants.Refused(), &refusal) {
		return nil
	}
	_, err := diagnose(refusal.Reply)
	return fmt.Errorf("a fair lock needs its channel %q: %w", refusal.Channel, err)
}

// hangUp ends listen.
func (r *room) hangUp() {
	if r.line != nil && r.line.grants != nil {
		r.line.grants.Close()
		r.line.grants = nil
	}
}

// granted deals with the message that the ticket has the lock.
func (r *room) granted(ticket string, now time.Time) {
	w := r.waiterWith(ticket)
	switch {
	case r.client.closed.Load() || !strings.HasPrefix(ticket, r.client.id.prefix):
	case w != nil && w.Value.asking:
		w.Value.ticket.called = true // the answer decides whether that is news
	case w != nil:
		r.take(w, now)
	case r.tenure != nil && strings.HasPrefix(ticket, r.tenure.text[:tenureLen]):
		// It asked, and was told so.
	default:
		// Nobody wants it, and the next in the queue must not wait for that.
		t := r.client.newTenure(r, request{}, now)
		t.text = ticket
		t.disown(now)
	}
}

func (r *room) waiterWith(ticket string) *waiter {
	for w := range r.queue.All {
		if t := w.Value.ticket; t != nil && t.phase == asking && t.text == ticket {
			return w
		}
	}
	return nil
}

// take gives w the lock that its ticket was granted, or has it ask first if too
// little of the claim is certain.
func (r *room) take(w *waiter, now time.Time) {
	v := &w.Value
	t := v.ticket
	t.sending(*t.queued, claimLease)
	t.trust.Confirmed()
	if t.trust.Valid(now) && t.trust.Until().Sub(now) > claimLease/2 && r.client.config.SyncReplicas == 0 {
		t.brief = true
		t.contested, t.others = true, 1 // it was freed for others
		r.grant(t, w, now)
	} else {
		t.trust = lease.Trust{}
		t.called, v.due = true, true
	}
	w.Wake()
}

// mayAsk reports whether w may ask Redis: the head does, about the lock or to tell
// who waits, and so does a waiter who was called.
func (r *room) mayAsk(w *waiter) bool {
	if t := w.Value.ticket; t != nil && t.phase == asking && t.called {
		return true
	}
	return r.queue.Head() == w && r.busy == 0 && (r.tenure == nil || r.line != nil && r.line.overdue)
}

// untold returns how long v, who does not ask, may wait for a command to ride with.
func (r *room) untold(v *visit, now time.Time) time.Duration {
	if r.line == nil || v.inLine() {
		return forever
	}
	if v.tellBy.IsZero() {
		v.tellBy = now.Add(max(tellTime, r.line.waited/4))
	}
	return v.tellBy.Sub(now)
}

// tell has the head tell of v, who has waited for so long.
func (r *room) tell(v *visit, now time.Time) {
	if r.line == nil || v.inLine() || now.Before(v.tellBy) {
		return
	}
	v.tellBy = now.Add(beat)
	r.line.overdue = true
	if head := r.queue.Head(); head != nil {
		head.Value.due = true
		head.Wake()
	}
}

// denied deals with an answer that names another holder, or none.
func (r *room) denied(w *waiter, now time.Time) {
	v := &w.Value
	t := v.ticket
	called := t.called
	t.called = false
	if r.line == nil || v.wait <= 0 {
		t.end()
		return
	}
	if err := r.deaf(); err != nil {
		v.err, v.fatal = err, true
	}
	// It can be heard by now, or Redis has lost tickets.
	v.due = r.listening() && (!v.inLine() || r.line.overdue)
	if called && t.phase == asking {
		r.take(w, now) // the grant came after the answer
	}
}
