package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// unlock takes one level off the hold of o: that of the handle h, or without one
// the innermost of that sort that was taken without.
func (l *Lock) unlock(ctx context.Context, o Owner, h *hold) (err error) {
	c, n := l.Client, l.Name
	if n.Err != nil {
		return n.Err
	}
	r := c.enterIfAny(n)
	if r == nil {
		return l.notHeld(o, h)
	}
	now := time.Now()
	t := r.current(now)
	was, ok := t.close(o, l.Shared, h)
	if !ok {
		advice := t.advice(o)
		r.exit()
		if err = l.notHeld(o, h); advice != "" && !errors.Is(err, ErrLost) {
			err = fmt.Errorf("%w: %s", err, advice)
		}
		return err
	}
	r.shard.counts.closed(was.way)
	if h != nil {
		h.released = true
	}
	err = r.closed(t, &was, now)
	if c.Observer.On() && !h.isPart() {
		c.Observer.TellReleased(ctx, c.closedLevel(n, &was, now, err), LostKeyGone)
	}
	return err
}

// closed goes on after a level was closed: the last one passes the lock on, or frees
// it. It is called with the mutex held, and gives it back.
func (r *room) closed(t *tenure, was *Level, now time.Time) error {
	if !r.goesOn(t, was, now) {
		return r.release(t, was.Owner, now)
	}
	r.exit()
	return nil
}

// goesOn reports whether the tenure, of which a level was closed, goes on: for its other levels,
// for the next waiter, or to linger.
func (r *room) goesOn(t *tenure, was *Level, now time.Time) bool {
	w := r.head()
	switch {
	case len(t.levels) > 0:
		t.changed(now)
		if t.shared && !was.Shared {
			r.admit(now, true)
		}
		r.current(now) // the levels that are left may have asked for less
	case w != nil && t.mayPass(now, w.Request):
		r.grant(t, w, ByHandoff, now)
	case t.mayLinger(now):
		t.linger(now)
	default:
		return false
	}
	return true
}

// advice tells o, which has nothing to unlock, who else of this process has the lock; "" for
// nobody.
func (t *tenure) advice(o Owner) string {
	if t == nil || t.phase != held || t.owner == o {
		return ""
	}
	how := "unlock there, or use Acquire or WithOwner"
	if t.owner.OfHandle() {
		how = "call its Release"
	}
	return fmt.Sprintf("it is held by %s of this process: %s", t.owner.Words(), how)
}

// notHeld says why o has nothing to unlock.
func (l *Lock) notHeld(o Owner, h *hold) error {
	c, n := l.Client, l.Name
	var cause error
	nothing := ErrNotHeld // a handle forgets nothing
	if h == nil {
		cause = c.Losses.Unlock(n.lossKey(o), l.Shared)
		nothing = c.Losses.NotHeld()
	} else if cause = h.giveBack(); cause != nil && !h.isPart() {
		c.Losses.Unlock(n.lossKey(o), l.Shared)
	}
	return c.NothingToUnlock(n.Key, o, cause, nothing)
}

// NothingToUnlock is the error of an owner that has lost the lock, for that cause, or that has
// nothing otherwise.
func (c *Client) NothingToUnlock(name string, o Owner, cause, nothing error) error {
	switch {
	case cause != nil:
		return cause
	case c.Closed.Load():
		return fmt.Errorf("rlock: unlock %q: %w", name, wire.ErrClosed)
	}
	return fmt.Errorf("rlock: unlock %q: owner %s: %w", name, o, nothing)
}

// release ends the tenure, whose last level was o's, and frees the lock in Redis. It
// is called with the mutex held, and gives it back. No caller's context can end it.
func (r *room) release(t *tenure, o Owner, now time.Time) error {
	first := r.beginRelease(t, now)
	next := r.nextTicket(now)
	r.shard.mu.Unlock()
	return r.finishRelease(t, o, next, first, now)
}

// beginRelease has the tenure leave: nothing but its release is sent for it, and nobody
// here asks for the lock before that is answered. It reports whether the release is the
// first command that may be in flight for the tenure.
func (r *room) beginRelease(t *tenure, now time.Time) (first bool) {
	t.roused()
	r.tenure = nil
	r.inFlight++
	r.since = now
	r.tokens = t.tokens.next()
	t.phase = leaving
	if !r.client.keeper.Stop(t) {
		r.escaped = true
	}
	wasTicket := !t.seen.IsZero()
	if wasTicket {
		t.leave()
	}
	return !wasTicket && !t.flying
}

// finishRelease sends the release of a tenure whose last level was o's, or that nobody had:
// then its loss is nobody's. It is called without the mutex.
func (r *room) finishRelease(t *tenure, o Owner, next *tenure, first bool, now time.Time) error {
	l := t.sendRelease(now, next, first)

	r.shard.mu.Lock()
	if next != nil {
		r.settle(next, joining, l, time.Now())
		if w := r.waiterWith(next.text); w != nil {
			w.Wake() // it has its ticket looked for, also if it gave way and is not the head
		}
	}
	if t.flying {
		landed := make(chan struct{})
		t.landed = landed
		r.shard.mu.Unlock()
		<-landed // as long as the release took, at most
		r.shard.mu.Lock()
	}
	r.inFlight--
	untold := wire.Released(l.err)
	err := wire.Explain(l.err)
	if errors.Is(err, wire.ErrWrongType) && !untold {
		l.answer.Left, err = 0, nil // somebody has put another key in its place
	}
	switch {
	case untold:
		t.end()
		err = fmt.Errorf("rlock: unlock %q: owner %s: it is released, but the waiters were not told, and look again within two seconds: %w", r.name.Key, o, err)
	case err != nil:
		t.disown(time.Now())
		err = fmt.Errorf("rlock: unlock %q: owner %s: %w, it is tried again until the lease ends at %s: %w",
			r.name.Key, o, ErrUnconfirmed, t.until.Format(time.TimeOnly), err)
	case l.answer.Left == 0:
		t.end()
		if o != nobody {
			r.shard.counts.Lost[LostKeyGone]++
		}
		err = errLost(r.name, o, errGone)
	default:
		t.end()
	}
	r.wakeHead()
	r.exit()
	return err
}

// nextTicket returns a ticket for the next waiter here, to join with the release; nil if
// there is none, or it could not be told of a grant yet.
func (r *room) nextTicket(now time.Time) *tenure {
	w := r.head()
	if w == nil || w.ticket != nil || !w.queues(now) || !r.listening() || r.client.Closed.Load() {
		return nil
	}
	w.ticket = r.newTicket(w.Request, now)
	return w.ticket
}

// sendRelease takes the tenure out of Redis, and puts next into the queue in the same command
// if it is not nil. The landing says whether Redis had the tenure, and what became of next. It
// takes no longer than an Unlock has: the wait for a place counts.
func (t *tenure) sendRelease(now time.Time, next *tenure, first bool) (l landing) {
	c, n := t.room.client, t.room.name
	releases := &c.Redis.Limits(n.Slot).Releases
	place, ok := releases.TryEnter()
	// A wait for a context as well costs 3 % of the throughput of many goroutines.
	ctx := context.Background()
	if !ok || !c.Redis.Ends() {
		ctx = c.Redis.Deadline(now)
	}
	if !ok {
		var err error
		if place, err = releases.Enter(ctx, nil); err != nil {
			return landing{err: err}
		}
	}
	defer place.Leave()
	switch {
	case next != nil:
		tokens := next.tokens.asked()
		call := n.step(c, wire.Step{Leave: t.member(), Join: next.member()}, next.lease, tokens)
		l.answer, l.err = wire.ReadStep(c.Redis.Do(ctx, call), tokens)
		l.settled = wire.Answered(l.err)
	case first && ok:
		result, _, late := c.Redis.DoFirst(ctx, n.Slot, now, t.releaseCall())
		if late != nil {
			late.GiveUp() // the keeper sends the release again
		}
		l.answer.Left, l.err = result.AsInt64()
	default:
		l.answer.Left, l.err = c.Redis.Do(ctx, t.releaseCall()).AsInt64()
	}
	return l
}

func (t *tenure) releaseCall() wire.Call {
	return t.room.name.step(t.room.client, wire.Step{Leave: t.member()}, 0, 0)
}

// errForced is the cause of a loss that this client has brought about.
var errForced = errors.New("it was unlocked by force")

// ForceUnlock frees the lock from its holders. It looks first, so that a
// command that arrives late ends nobody else's tenure. A holder of this client
// learns it at once. Other clients of ours are told, and ask Redis. A key that holds something
// else than a lock is left as it is.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	return l.forceUnlock(ctx, func(holder string, released bool, err error) {
		r := l.Client.enterIfAny(l.Client.nameForText(l.Name, holder))
		if r == nil {
			return
		}
		if t := r.tenure; t != nil && t.is(holder) {
			switch {
			case err != nil:
				t.mirror() // which finds out
			case released:
				t.lose(errForced)
				t.end()
			}
		}
		r.exit()
	})
}

// forceUnlock releases the holders in Redis, and calls out for each of them.
func (l *Lock) forceUnlock(ctx context.Context, out func(holder string, released bool, err error)) (bool, error) {
	c, n := l.Client, l.Name
	holders, err := n.kind().holders(ctx, l)
	if err != nil {
		return false, err
	}
	caller := ctx
	ctx, cancel := c.Redis.Within(caller)
	defer cancel()
	released := false
	for _, holder := range holders {
		place, err := c.Redis.Limits(n.Slot).Releases.Enter(ctx, nil)
		var reply int64
		if err == nil {
			reply, err = c.forceOut(ctx, n, holder).AsInt64()
			place.Leave()
		}
		out(holder, reply > 0, err)
		if err != nil {
			return false, fmt.Errorf("rlock: force unlock %q: %w", n.Key, wire.ExplainTo(caller, err))
		}
		released = released || reply > 0
	}
	return released, nil
}

// forceOut releases the holder in Redis, and tells its client if that is another of ours.
func (c *Client) forceOut(ctx context.Context, n *Name, holder string) rueidis.RedisResult {
	call := n.step(c, wire.Step{Leave: wire.Member{Mode: "x", Ticket: holder}}, 0, 0)
	if !wire.IsOurs(holder) || len(holder) < wire.TenureLen || strings.HasPrefix(holder, c.ID.Prefix) || c.Config.NoClientChannel {
		return c.Redis.Do(ctx, call)
	}
	return c.Redis.DoAndTell(ctx, call, wire.ClientMessage{Verb: wire.Forced, Owner: holder, Text: n.Key})
}
