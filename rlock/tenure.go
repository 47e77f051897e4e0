package rlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/lease"
)

// A phase is where a tenure stands.
//
//	asking ----> held ----> leaving ----> ended
//	   |           |           | no answer   ^
//	   | unknown   | lapsed    v             |
//	   +-----------+-----> releasing --------+
//	               |                         |
//	               +------ not ours ---------+
type phase uint8

const (
	asking    phase = iota // its acquire is in flight
	held                   // a local owner has the lock
	leaving                // Unlock's release is in flight
	releasing              // the keeper sends the release until it is answered
	ended                  // over: nothing of it is ever sent again
)

// A tenure is the time during which this client owns the lock's key in Redis.
// Inside it the client's memory is the truth and Redis mirrors it (design
// section 2). Its UUID is its own.
type tenure struct {
	room  *room
	entry lease.Entry // its place with the keeper

	// The shard's mutex protects following.

	phase phase
	text  string // the owner as last sent: "<uuid>:<id>"

	// owner and levels are the truth: who holds the lock, once for each level.
	// levels is empty only outside the phase held.
	owner  Owner
	levels []level
	first  [1]level // where levels begins, since most locks are not nested

	// trust is how long Redis has confirmed, counted from before the send.
	trust  lease.Trust
	lease  time.Duration // that was last sent
	sentAt time.Time     // when it was
	fails  int           // mirrors in a row that had no good answer
	err    error         // of the last of them
	// shortest is the shortest lease that a mirror without an answer asked for,
	// zero if there was none. It may be executed yet, after any later one, so that
	// no lease of the tenure is trusted for longer.
	shortest time.Duration

	// dirty is set while Redis does not show owner and levels, nor is a command
	// on its way that will.
	dirty bool

	// contested is set while other clients are known to wait, since then; passes
	// counts the hand-overs since.
	contested   bool
	contestedAt time.Time
	passes      int
	others      int // how many they are, 0 if nobody could tell

	// flying is set from when a mirror is built until its answer is in; then
	// landed is closed, if somebody waits.
	flying bool
	landed chan struct{}

	until time.Time // releasing: when the lease has ended by itself
	ghost bool      // releasing: the acquire may be executed after the release
	cause error     // ended by loss or by Close: why
}

// A level is one Lock that was not unlocked yet.
type level struct {
	until time.Time // the end of the lease it asked for; zero: kept by the watchdog
	hold  *Hold     // its handle, nil if it was taken without
}

func (l level) kept() bool { return l.until.IsZero() }

// newTenure returns a tenure whose acquire is about to be sent.
func (c *Client) newTenure(r *room, req request, now time.Time) *tenure {
	t := r.shard.spareTenure
	if t == nil {
		t = new(tenure)
	}
	r.shard.spareTenure = nil
	*t = tenure{room: r, owner: req.owner, text: c.id.owner(req.owner), contestedAt: now}
	t.levels = t.first[:0]
	t.contested = c.numsub == "" // nobody can tell, so somebody waits
	if r.withForeign(now) {      // known before the first mirror
		t.contested, t.others = true, 1
	}
	t.sending(now, c.leaseOf(req))
	c.live.Add(1)
	return t
}

// leaseOf returns the lease to ask Redis for.
func (c *Client) leaseOf(req request) time.Duration {
	if req.lease > 0 {
		return req.lease
	}
	return c.config.Lease
}

// drift is what a lease is shorter by in the client's eyes.
func (c *Client) drift(ttl time.Duration) time.Duration { return lease.Drift(ttl, c.tick) }

// milliseconds writes a lease as the scripts take it.
func (c *Client) milliseconds(d time.Duration) string {
	if d == c.config.Lease {
		return c.leaseText
	}
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// sending notes that a command is about to be sent that sets the lease.
func (t *tenure) sending(now time.Time, ttl time.Duration) {
	t.sentAt, t.lease = now, ttl
	trusted := t.atMostShortest(ttl)
	t.trust.Sent(now, trusted, t.room.client.drift(trusted))
}

func (t *tenure) atMostShortest(ttl time.Duration) time.Duration {
	if t.shortest > 0 {
		return min(ttl, t.shortest)
	}
	return ttl
}

// begin starts a hold: the first of the tenure, or the next one by hand-over,
// whose lease begins now and who trusts no more than what Redis has confirmed.
func (t *tenure) begin(now time.Time, req request) {
	passedOn := t.phase == held
	t.phase = held
	t.owner = req.owner
	t.levels = t.levels[:0]
	t.open(now, req)
	if passedOn {
		t.changed()
		return
	}
	t.room.client.keeper.Schedule(t, t.due())
}

// nest opens one more level for the owner.
func (t *tenure) nest(now time.Time, req request) {
	t.open(now, req)
	t.changed()
}

func (t *tenure) open(now time.Time, req request) {
	l := level{hold: req.hold}
	if req.lease > 0 {
		l.until = now.Add(req.lease)
	}
	if req.hold != nil {
		req.hold.tenure = t
		t.room.pointedTo = true
	}
	t.levels = append(t.levels, l)
}

// close takes away the level of the handle h, or without one the innermost level
// that was taken without, and reports whether there was such a level.
func (t *tenure) close(h *Hold) bool {
	for i := len(t.levels) - 1; i >= 0; i-- {
		if t.levels[i].hold == h {
			t.levels = append(t.levels[:i], t.levels[i+1:]...)
			return true
		}
	}
	return false
}

// changed has the keeper mirror the tenure: at once the first time, then at most
// once a millisecond with what is true by then.
func (t *tenure) changed() {
	keeper := t.room.client.keeper
	if _, bounded := t.asked(); bounded {
		keeper.Schedule(t, t.due())
	}
	// A mirror that is tried again by the wheel has just lost its time there.
	if !t.dirty || t.fails > 0 {
		t.dirty = true
		keeper.Nudge(t)
	}
}

// asked returns until when the open levels ask to keep the lock: for the longest
// of them, without end (not bounded) if one is kept by the watchdog.
func (t *tenure) asked() (until time.Time, bounded bool) {
	for _, l := range t.levels {
		if l.kept() {
			return time.Time{}, false
		}
		if l.until.After(until) {
			until = l.until
		}
	}
	return until, true
}

// longest is asked over those levels only that have an end.
func (t *tenure) longest() (until time.Time) {
	for _, l := range t.levels {
		if l.until.After(until) {
			until = l.until
		}
	}
	return until
}

// validUntil is when the tenure ends in the client's eyes: when the trust does,
// or when no level asks for more.
func (t *tenure) validUntil() time.Time {
	until := t.trust.Until()
	if asked, bounded := t.asked(); bounded && asked.Before(until) {
		return asked
	}
	return until
}

// valid reports whether the tenure may be believed: no hand-over, no nested lock
// and no IsHeld succeeds without it.
func (t *tenure) valid(now time.Time) bool {
	if t.phase != held || !t.trust.Valid(now) {
		return false
	}
	asked, bounded := t.asked()
	return !bounded || now.Before(asked)
}

// lapse ends a tenure that is no longer valid by the clock. Redis may have it
// yet, for a moment or, by a mirror that was executed without an answer, for a
// lease: the keeper releases it.
func (t *tenure) lapse(now time.Time) {
	cause := fmt.Errorf("its lease ended at %s", t.validUntil().Format(time.TimeOnly))
	if t.err != nil {
		cause = fmt.Errorf("it could not be renewed: %w", t.err)
	}
	t.lose(cause)
	t.disown(now)
}

// lose ends the hold: the local queue is free, and its head asks Redis at once.
func (t *tenure) lose(why error) {
	r := t.room
	t.cause = fmt.Errorf("rlock: lock %q of owner %s: %w: %w", r.name.key, t.owner, ErrLost, why)
	if !t.owner.ofHandle() {
		_, bounded := t.asked()
		r.client.losses.add(lossKey{r.name.id, r.name.key, t.owner}, len(t.levels), !bounded, t.cause)
	}
	r.tenure = nil
	r.pointedTo = true
	r.lost = append(r.lost, t)
	r.wakeHead()
}

// announce tells the holders of a tenure that has ended by loss or by Close, and
// the log. It is called once, without the mutex, after nobody changes levels any
// more.
func (t *tenure) announce() {
	for _, l := range t.levels {
		if l.hold != nil {
			l.hold.cancel(t.cause)
		}
	}
	if t.room.client.closed.Load() {
		return
	}
	severity := slog.LevelDebug // the end of a fixed lease is what was asked for
	if _, bounded := t.asked(); !bounded || errors.Is(t.cause, errGone) {
		severity = slog.LevelWarn
	}
	t.room.client.config.Logger.Log(context.Background(), severity, "rlock: lock lost",
		"lock", t.room.name.key, "owner", t.owner, "cause", t.cause)
}

// abandon ends the hold because the client closes.
func (t *tenure) abandon() {
	t.cause = fmt.Errorf("rlock: lock %q of owner %s: %w", t.room.name.key, t.owner, ErrClosed)
	t.room.tenure = nil
	t.disown(time.Now())
}

// disown has the keeper release a tenure that nobody here wants, until Redis
// answers or the lease is over by itself.
func (t *tenure) disown(now time.Time) {
	t.phase = releasing
	t.room.pointedTo = true
	t.until = now.Add(t.lease)
	t.fails = 0
	t.room.client.keeper.Schedule(t, t.until)
	t.room.client.keeper.Nudge(t)
}

// end makes sure that nothing of the tenure is ever sent again.
func (t *tenure) end() {
	if t.phase == ended {
		return
	}
	r := t.room
	if !r.client.keeper.Stop(t) {
		r.pointedTo = true
	}
	t.phase = ended
	r.client.over()
	if !r.pointedTo {
		r.shard.spareTenure = t
	}
}
