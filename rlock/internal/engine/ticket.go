package engine

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A ticket is a tenure made in advance: its text stands in the lock's queue in Redis until
// Redis makes it the owner. A client has one ticket for a lock, which stands for the first
// of its waiters; of a strict lock each waiter has one.
//
// The message of a grant says which ticket has the lock. It does not say when the lease
// began. But it began after the ticket was last found in the queue, and that was after the
// command was sent that found it: so the lease of a claim is counted from then. For this to
// be sound no ticket may come into the queue twice, since the message of its first grant
// might be yet to come. So a ticket is told to join by one command only; if that is not
// answered, or Redis has lost the ticket, the waiter gets another.

const (
	// claimLease is for how long a ticket has the lock unless its client asks for more,
	// and so how long a client that died with a grant on its way keeps others waiting. It
	// is a part of the protocol: queue.lua says the same.
	claimLease = 2 * time.Second
	// lookTime is how often a ticket is looked for. It keeps the trust in its claim fresh,
	// and finds grants whose message was lost.
	lookTime = claimLease
	// queueTime is how long the queue is kept without a command. It is a part of the
	// protocol: queue.lua says the same.
	queueTime = time.Minute
)

// member returns the ticket as it stands in the queue.
func (t *tenure) member() wire.Member {
	modes := "xs"
	if t.polls {
		modes = "XS"
	}
	if t.shared {
		return wire.Member{Mode: modes[1:], Ticket: t.text}
	}
	return wire.Member{Mode: modes[:1], Ticket: t.text}
}

// subscribe makes sure that the client is told of grants.
func (r *room) subscribe() {
	if r.sub == nil {
		c, n := r.client, r.name
		r.subscribed = time.Now()
		r.sub = c.hub.Listen(n.turn, func(message string) { c.noticed(n, message) })
	}
}

// unsubscribe ends subscribe, and listen.
func (r *room) unsubscribe() {
	if r.sub != nil {
		r.deafen()
		r.sub.Close()
		r.sub = nil
	}
}

// listening reports whether messages come.
func (r *room) listening() bool { return r.sub != nil && r.sub.Confirmed() }

// noticed deals with a message on this client's channel of the lock. Rooms of different
// kinds share the channel.
func (c *Client) noticed(n *Name, message string) {
	notice, ok := wire.ParseNotice(message)
	if !ok || notice.Lock != n.Key || !strings.HasPrefix(notice.Ticket, c.ID.Prefix) || c.Closed.Load() {
		return
	}
	now := time.Now()
	for r := range c.roomsFor(n.Key, notice.Ticket) {
		if r.noticed(notice, now) {
			return
		}
	}
	if !notice.Granted || n.kind().many || c.knowBeside(n.Key, notice.Ticket) { // each room of these hears the messages for all
		return
	}
	// No waiter wants it, and the next in the queue must not wait for that.
	r := c.enter(n)
	if !c.Closed.Load() && !r.shard.hurry(notice.Ticket) && !c.detached.has(notice.Ticket) {
		t := c.newTenure(r, Request{}, false, now)
		t.text = notice.Ticket
		t.disown(now)
	}
	r.exit()
}

// noticed reports whether the notice is about a ticket of the room, and deals with it.
func (r *room) noticed(n wire.Notice, now time.Time) bool {
	w := r.waiterWith(n.Ticket)
	switch {
	case w == nil:
		return r.tenure != nil && r.tenure.is(n.Ticket) || r.shard.hurry(n.Ticket)
	case !n.Granted:
		r.listen()
		w.lookNow(now)
		w.Wake()
	case w.ticket.phase != queued:
		w.ticket.stale = true
		if w.ticket.phase == joins {
			w.grant = n
		}
	default:
		r.take(w, n, now)
	}
	return true
}

// worthTaking reports whether a hold may begin with a claim of which the trust of t is
// what is left, or a look must come first: one that is about to end would be lost by a short
// delay, and only a look waits for replicas.
func (r *room) worthTaking(t *tenure, now time.Time) bool {
	return t.trust.Valid(now) && t.trust.Until().Sub(now) > claimLease/2 && r.client.Redis.SyncReplicas() == 0
}

func (r *room) waiterWith(ticket string) *waiter {
	for w := range r.waiters {
		if t := w.ticket; t != nil && t.text == ticket {
			return w
		}
	}
	return nil
}

// take gives w the lock that its ticket was granted, or has it look first if too little of
// the claim is certain. Once the client is closed the waiter leaves, and gives the ticket up.
//
// The message may be of somebody else who knows the ticket. So it ends no hold that is valid
// by what Redis has answered: Redis is asked about both.
func (r *room) take(w *waiter, n wire.Notice, now time.Time) {
	if r.client.Closed.Load() {
		return
	}
	t := w.ticket
	if was := r.tenure; was != nil && was.valid(now) && !(was.shared && t.shared) {
		was.mirror()
		w.lookAt = now
		w.Wake()
		return
	}
	t.sending(t.seen, claimLease)
	t.trust.Confirmed()
	if !r.worthTaking(t, now) || t.tokens != nil && n.Reserved == 0 {
		t.trust = lease.Trust{}
		w.lookAt = now
		w.Wake()
		return
	}
	t.claimed = true
	t.contestedAt = now // it was freed for others
	t.tokens.take(n.Counter, n.Reserved)
	w.ticket = nil
	r.grant(t, w, ByQueue, now)
}

// giveBack gives up a ticket whose waiter is gone, at once: it may be the next to have
// the lock.
func (r *room) giveBack(t *tenure, now time.Time) {
	if t != nil && t.phase == queued { // else when its command is answered
		t.disown(now)
	}
}

// inherit gives the ticket of a waiter that leaves to the next one, if it can stand for
// it. It keeps its place in the queue.
func (r *room) inherit(t *tenure, lookAt, now time.Time) {
	next := r.head()
	if t != nil && t.phase == queued && next != nil && next.ticket == nil && next.Shared == t.shared &&
		next.queues(now) && !r.name.kind().strict {
		t.shown = shape{} // another owner's
		next.ticket, next.lookAt = t, lookAt
		next.Wake()
		return
	}
	r.giveBack(t, now)
}
