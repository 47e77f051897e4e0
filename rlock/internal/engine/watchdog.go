package engine

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A tenure is what the keeper renews: these are the methods it is renewed by.
// They take the shard's mutex, which Unlock holds when it ends a tenure. A mirror
// that was built before is on its way, and Unlock does not return before it has
// landed; one built after finds the tenure over. So nothing is renewed after
// Unlock. (A mirror that meets the release on the way finds the key gone.)

// Entry implements [lease.Renewable].
func (t *tenure) Entry() *lease.Entry { return &t.entry }

// Group implements [lease.Renewable]: the node.
func (t *tenure) Group() uint32 { return t.room.client.Redis.Nodes.Of(t.room.name.Slot) }

// shortSection is how long a hold that began with a claim is not mirrored, even if its ticket
// waited for most of a third of the claim: most sections are over by then.
const shortSection = 50 * time.Millisecond

// Due implements [lease.Renewable].
func (t *tenure) Due(now time.Time) (send bool) {
	r := t.room
	r.shard.mu.Lock()
	defer r.exit()
	t.alarm = 0
	switch t.phase {
	case held, lingering:
		if t.settle(now); !t.kept() {
			return true
		}
		if t.phase == lingering && now.Sub(r.client.start) >= t.lingerEnd {
			t.drop(now)
			return true
		}
		t.tellLongHolds(now)
		if t.dirty || !now.Before(t.due()) || t.toTrack(now) {
			t.schedule(t.nextEnd())
			return true
		}
		t.schedule(t.wakes())
	case releasing:
		if now.Before(t.until) {
			t.schedule(t.until)
			return true
		}
		t.end()
	}
	return false
}

// due is when the keeper must look at a tenure next: a third of the client's lease
// after the last mirror, sooner after one that failed, and when it ends. So the
// loss of a long fixed lease is found as soon as any other; its mirror asks for no
// more than what is left of it.
func (t *tenure) due() time.Time {
	c := t.room.client
	lease := t.atMostShortest(c.Config.Lease)
	if t.claimed {
		lease = min(lease, t.lease)
	}
	renewal := c.start.Add(roundDown(t.trust.SentAt().Add(lease/3).Sub(c.start), lease/256))
	if short := t.contestedAt.Add(shortSection); t.claimed && renewal.Before(short) {
		renewal = short
	}
	return earlier(renewal, t.nextEnd())
}

// nextEnd is when somebody loses the lock unless it is renewed: all do, or a reader
// whose fixed lease is over.
func (t *tenure) nextEnd() time.Time { return earlier(t.validUntil(), t.ends) }

// roundDown makes renewals fall due together: of ten thousand a second the client
// would otherwise wake for a few at a time, and waking is a fifth of what they cost.
func roundDown(d, step time.Duration) time.Duration { return d - d%step }

// errGone is what Redis says when it answers "not yours".
var errGone = errors.New("its key is gone, or another's")

// build returns what is to be sent for the tenure now, if anything.
func (t *tenure) build(now time.Time) (s sent, ok bool) {
	c, n := t.room.client, t.room.name
	s = sent{tenure: t, group: int(n.Slot)<<8 | int(n.KindID), phase: t.phase, claimed: t.claimed}
	switch t.phase {
	case held, lingering:
		s.phase = held // the answer is the same, should it be in use by then
		ttl := t.wanted(now)
		t.sending(now, ttl)
		wrote := t.shown.writes > 0
		t.shown, t.dirty, t.flying, t.claimed = t.shape(), false, true, false
		s.track = t.buildTracked(now)
		s.opened = wrote && t.shown.writes == 0
		var digits [20]byte
		owner := strconv.AppendUint(digits[:0], t.owner.ID, 10) // it seldom differs, and allocates nothing then
		if t.text[wire.TenureLen:] != string(owner) {
			t.text = t.text[:wire.TenureLen] + string(owner)
		}
		s.lease, s.owner, s.count, s.reads = c.milliseconds(ttl), t.text, strconv.Itoa(int(t.shown.writes)), t.shown.reads
		// A tenure that lingers and is used again and again may never be called: foreign clients cannot.
		s.asking = t.shared || t.room.queue.Len() > 0 || t.lingers > 0
	case releasing:
	default:
		return s, false
	}
	return s, true
}

// answered deals with the answer to a command of the keeper. If its node was not
// reached at all, the keeper tries it again with the whole batch; what failed in
// a batch of which something was answered, be it by an error or by a connection
// that ended in between, is tried again by the wheel.
func (t *tenure) answered(now time.Time, s sent, reached bool) {
	if s.phase == held {
		t.flying = false
		if t.landed != nil {
			close(t.landed)
			t.landed = nil
		}
	}
	switch {
	case t.phase != s.phase && !(s.phase == held && t.kept()):
		return // it ended meanwhile
	case t.phase == releasing:
		t.answeredRelease(now, s, reached)
		return
	}
	switch err := wire.Explain(s.err); {
	case errors.Is(err, wire.ErrWrongType) || err == nil && s.reply == 0:
		t.lose(errGone)
		t.end()
	case err != nil:
		t.failed(now, s, err, reached)
	default:
		t.confirmed(now, s)
	}
}

// confirmed deals with a mirror that Redis has confirmed.
func (t *tenure) confirmed(now time.Time, s sent) {
	t.fails, t.err = 0, nil
	t.trust.Confirmed()
	t.schedule(t.wakes())
	if s.asking {
		t.heardOfOthers(now, s.reply-1)
		if t.contested() && !t.recalled && wire.Lingers(t.text) {
			t.room.backOff(0, lastBackoff, now) // foreign clients wait, which cannot call
		}
		if s.opened && t.contested() {
			t.room.open()
		}
	}
	switch {
	case t.phase == lingering && t.contested():
		t.room.letGo(t, now)
	case t.phase == held && t.shared:
		t.room.admit(now, false)
	}
}

// failed has a mirror tried again soon, not at the next third.
func (t *tenure) failed(now time.Time, s sent, err error, reached bool) {
	c := t.room.client
	t.dirty, t.err = true, err
	if !wire.Answered(s.err) {
		t.unanswered()
	}
	if reached {
		backoff := min(50*time.Millisecond<<min(t.fails, 10), c.Config.Lease/10, time.Second)
		t.fails++
		t.schedule(earlier(now.Add(backoff), t.nextEnd()))
	}
}

// answeredRelease deals with the answer to a release in the background.
func (t *tenure) answeredRelease(now time.Time, s sent, reached bool) {
	switch {
	case s.err == nil && !(t.ghost && s.reply == 0):
		t.end()
	case reached:
		// Not answered yet, or not executed yet: a ghost may come until its
		// connection is given up, so it is looked for until its lease is over.
		again := now.Add(min(50*time.Millisecond<<min(t.fails, 10), t.lease/4))
		t.fails++
		if again.Before(t.until) {
			t.schedule(again)
		}
	}
}
