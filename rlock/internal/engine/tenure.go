package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
)

// A phase is where a tenure stands: the package comment has the diagram.
type phase uint8

const (
	asking    phase = iota // its acquire is in flight
	joins                  // the command that puts it into the queue is in flight
	queued                 // it stands in the queue
	lookedFor              // the same, and a look is in flight
	held                   // a local owner has the lock
	leaving                // Unlock's release is in flight
	lingering              // nobody has the lock, and the client keeps the key: see linger.go
	releasing              // the keeper sends the release until it is answered
	ended                  // over: nothing of it is ever sent again
)

// A tenure is the time during which this client owns the lock's key in Redis.
// Inside it the client's memory is the truth and Redis mirrors it (docs/design.md). Its
// UUID is its own. Before, it is a ticket in Redis' queue, if it has to wait: see
// ticket.go.
type tenure struct {
	// What a renewal touches comes first: of a hundred thousand tenures none is in the
	// processor's cache, and most of what renewing them costs is to fetch them.

	room  *room
	entry lease.Entry // its place with the keeper

	// The shard's mutex protects following.

	phase  phase
	shared bool // see levels
	// dirty is set while Redis was not told what is true, or did not answer.
	dirty bool
	// flying is set from when a mirror is built until its answer is in; then
	// landed is closed, if somebody waits.
	flying bool
	// claimed is set while Redis was asked for no more than a claim.
	claimed bool
	// tracking is whether Redis tells if somebody else changes the key: see tracking.go.
	tracking tracking

	recalled bool // another client has called: the tenure does not linger
	reused   bool // a hold began in it while it lingered

	// Of a ticket, see ticket.go:
	polls bool // its client cannot be told of a grant
	stale bool // a message came while its command was in flight: the answer may be older
	heard bool // the look in flight tells Redis that a foreign client was heard to release the lock

	ghost bool  // releasing: the acquire may be executed after the release
	fails int32 // mirrors in a row that had no good answer

	// trust is how long Redis has confirmed, counted from before the send.
	trust lease.Trust
	lease time.Duration // that was last sent
	// shortest is the shortest lease that a mirror without an answer asked for, or an
	// acquire of a ticket that asks again; zero if there was none. It may be executed
	// yet, after any later one, so that no lease of the tenure is trusted for longer.
	shortest time.Duration

	// levels are the truth: the holder of each level of the lock. It is empty
	// only outside the phase held. owner is in whose name Redis shows the tenure.
	// Unless shared is set, at least one level is not shared, and all are owner's. A
	// lingering tenure has no levels, and stands for one more Lock like the last one.
	// While nothing is held yet, shared is what is asked for.
	owner  Owner
	levels []Level
	first  [1]Level // where levels begins, since most locks are not nested
	// ends is no later than the next end of a shared level, at which its owner may
	// lose it while others go on; never if none has an end.
	ends time.Time

	shown shape  // what Redis was last told of the levels
	text  string // the owner as last sent: "<uuid>:<id>"
	err   error  // of the last of fails

	landed chan struct{}
	tokens *tokens // of a fenced lock's tenure, nil for others

	// contestedAt is since when other clients are known to wait, zero while none are, and
	// passes how often the lock was handed off here since.
	contestedAt time.Time
	passes      int32

	// seen is when the last command was sent that found the ticket in the queue, or put it
	// there.
	seen time.Time

	until time.Time // releasing: when the lease has ended by itself, or the queue has

	lingers time.Duration // for how long it is to linger at its end; 0: not at all
	// lingerEnd is when it has lingered for long enough, and alarm when the keeper has it
	// asked by the wheel, 0 if that is not known: both from the client's start.
	lingerEnd, alarm time.Duration
	line             *waitqueue.Waiter[*tenure] // its place in shard.lingering, made with the first
}

// newTenure returns a tenure whose acquire is about to be sent, and that may linger or not.
func (c *Client) newTenure(r *room, req Request, lingers bool, now time.Time) *tenure {
	t := r.shard.spareTenure
	if t == nil {
		t = new(tenure)
	}
	r.shard.spareTenure = nil
	*t = tenure{} // apart, since a tenure is large: it is cleared in place, and not made elsewhere and copied
	t.room, t.owner, t.shared, t.text = r, req.Owner, req.Shared, c.ID.Owner(req.Owner.ID, lingers)
	t.levels = t.first[:0]
	t.shown = oneLevel(t.owner, t.shared)
	if r.name.kind().fenced {
		t.tokens = &tokens{reserved: max(r.tokens, 1)}
	}
	t.sending(now, c.leaseOf(req))
	c.live.Add(1)
	return t
}

// is reports whether an owner in Redis, "<uuid>:<id>", is the tenure's.
func (t *tenure) is(owner string) bool { return strings.HasPrefix(owner, t.text[:wire.TenureLen]) }

// leaseOf returns the lease to ask Redis for.
func (c *Client) leaseOf(req Request) time.Duration {
	if req.Lease > 0 {
		return req.Lease
	}
	return c.Config.Lease
}

// drift is what a lease is shorter by in the client's eyes.
func (c *Client) drift(ttl time.Duration) time.Duration { return lease.Drift(ttl, c.tick) }

// milliseconds writes a lease as the scripts take it.
func (c *Client) milliseconds(d time.Duration) string {
	if d == c.Config.Lease {
		return c.leaseText
	}
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// sending notes that a command is about to be sent that sets the lease.
func (t *tenure) sending(now time.Time, ttl time.Duration) {
	t.lease = ttl
	trusted := t.atMostShortest(ttl)
	t.trust.Sent(now, trusted, t.room.client.drift(trusted))
}

// unanswered notes that the command last sent has no answer.
func (t *tenure) unanswered() { t.shortest = t.atMostShortest(t.lease) }

func (t *tenure) atMostShortest(ttl time.Duration) time.Duration {
	if t.shortest > 0 {
		return min(ttl, t.shortest)
	}
	return ttl
}

// begin starts a hold: the first of the tenure, or the next one by hand-off. Its lease
// begins now. It is trusted for no longer than Redis has confirmed.
func (t *tenure) begin(now time.Time, req Request) {
	was := t.phase
	passedOn := was == held || was == lingering
	if passedOn && t.tokens != nil {
		t.tokens.current++ // mayPass, or mayReuse, has seen to it that there is one
	}
	t.roused()
	t.phase = held
	t.owner, t.shared = req.Owner, req.Shared
	t.lingers = t.room.client.lingerOf(t.room, &req)
	t.levels, t.ends = t.levels[:0], never
	t.open(now, req)
	if passedOn {
		if was == lingering && t.shown.is(t.shape()) {
			t.shown.owner = t.owner // Redis is told with the next renewal
			if t.watch(); req.Lease == 0 && t.lease == t.room.client.Config.Lease && !t.dirty {
				return
			}
		} else {
			t.shown = shape{writes: t.shown.writes} // another's
			t.watch()
		}
		t.changed(now)
		return
	}
	t.schedule(t.wakes())
	t.room.client.hearOfTenures()
	if t.shown.owner != t.owner { // the ticket was made for another waiter
		t.mirror()
	}
}

// nest opens one more level, for the owner or for one more reader.
func (t *tenure) nest(now time.Time, req Request) {
	t.open(now, req)
	if req.Way != ByNesting {
		t.watch()
	}
	t.changed(now)
}

// changed has the keeper mirror the tenure if Redis shows something else.
func (t *tenure) changed(now time.Time) {
	if t.bounded() || t.ends != never {
		t.schedule(t.wakes())
	}
	if t.dirty || !t.shows(now) {
		t.mirror()
	}
}

// schedule has the keeper ask the tenure at that time, and at no other.
func (t *tenure) schedule(at time.Time) {
	c := t.room.client
	t.alarm = at.Sub(c.start)
	c.keeper.Schedule(t, at)
}

// mirror has the keeper make Redis show the tenure: at once the first time, then
// at most once a millisecond with what is true by then.
func (t *tenure) mirror() {
	// A mirror that is tried again by the wheel has just lost its time there.
	if !t.dirty || t.fails > 0 {
		t.dirty = true
		t.room.client.keeper.Nudge(t)
	}
}

// validUntil is when the tenure ends in the client's eyes: when the trust does,
// or when no level asks for more.
func (t *tenure) validUntil() time.Time { return t.validUntilFor(nobody) }

// validUntilFor is validUntil for the levels of one owner.
func (t *tenure) validUntilFor(o Owner) time.Time { return earlier(t.trust.Until(), t.askedBy(o)) }

// kept reports whether the client keeps the key in Redis: somebody here has the lock, or
// the tenure lingers.
func (t *tenure) kept() bool { return t.phase == held || t.phase == lingering }

// valid reports whether the tenure may be believed: no hand-over, no nested lock
// and no IsHeld succeeds without it.
func (t *tenure) valid(now time.Time) bool {
	if !t.kept() || !t.trust.Valid(now) {
		return false
	}
	asked := t.asked()
	return asked == never || now.Before(asked)
}

// settle ends what is over by the clock: the tenure, or the holds of some of its
// readers.
func (t *tenure) settle(now time.Time) {
	switch {
	case !t.valid(now):
		t.lapse(now)
	case t.ends != never && !now.Before(t.ends):
		t.expire(now)
	}
}

// lapse ends a tenure that is no longer valid by the clock. Redis may have it
// yet, for a moment or, by a mirror that was executed without an answer, for a
// lease: the keeper releases it.
func (t *tenure) lapse(now time.Time) {
	cause := errEnded(t.validUntil())
	switch {
	case t.err != nil:
		cause = fmt.Errorf("it could not be renewed: %w", t.err)
	case t.dirty || t.flying:
		cause = fmt.Errorf("it was not confirmed by %s", t.validUntil().Format(time.TimeOnly))
	}
	t.lose(cause)
	t.disown(now)
}

// leave notes that the tenure is leaving until it has ended.
func (t *tenure) leave() {
	s := t.room.shard
	if s.leaving == nil {
		s.leaving = make(map[string]*tenure)
	}
	s.leaving[t.text[:wire.TenureLen]] = t
}

// disown has the keeper release a tenure that nobody here wants, until Redis
// answers or the lease is over by itself.
func (t *tenure) disown(now time.Time) {
	wasTicket := t.phase == joins || t.phase == queued || t.phase == lookedFor
	t.roused()
	t.phase = releasing
	t.leave()
	t.room.escaped = true
	t.until = now.Add(t.lease)
	if wasTicket && !t.ghost {
		t.until = now.Add(queueTime)
	}
	t.fails = 0
	t.schedule(now.Add(t.lease))
	t.room.client.keeper.Nudge(t)
}

// end makes sure that nothing of the tenure is ever sent again.
func (t *tenure) end() {
	if t.phase == ended {
		return
	}
	r := t.room
	if !r.client.keeper.Stop(t) {
		r.escaped = true
	}
	t.roused()
	delete(r.shard.leaving, t.text[:wire.TenureLen])
	t.phase = ended
	r.client.over()
	if !r.escaped {
		r.shard.spareTenure = t
	}
}
