package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// unlock takes one level off the hold of o: that of the handle h, or without one the innermost that was
// taken without.
func (of *Lock) unlock(ctx context.Context, o terms.Owner, h *hold) error {
	c, n := of.driver, of.Name
	if n.Err != nil {
		return n.Err
	}
	l, now := c.enterIfAny(n, core.OwnerID(o.ID))
	if l == nil {
		return of.notHeld(o, h)
	}
	l.mayLinger(now)
	was, t, ok := l.Unlock(core.OwnerID(o.ID), of.mode(), handleOf(h), now)
	if !ok {
		advice := l.advice(o)
		l.shard.exit(l)
		err := of.notHeld(o, h)
		if advice != "" && !errors.Is(err, terms.ErrLost) {
			err = fmt.Errorf("%w: %s", err, advice)
		}
		return err
	}
	l.shard.counts.Closed(was.First)
	if h != nil {
		h.released = true
	}
	var err error
	if t == nil {
		l.shard.exit(l)
	} else {
		err = l.release(t, o, now)
	}
	if c.shared.Observer.On() && !h.isPart() {
		c.shared.Observer.TellReleased(ctx, c.closedLevel(n, &was, now, err), terms.LostKeyGone)
	}
	return err
}

// handleOf returns the handle as package core knows it.
func handleOf(h *hold) any {
	if h == nil {
		return nil
	}
	return h
}

// closedLevel is the event of a level that was closed then.
func (c *Client) closedLevel(n *client.Name, was *core.Level, at core.Now, err error) terms.Event {
	e := n.Event(ownerOf(was), was.Mode == core.Shared)
	e.Way, e.Held, e.Err = ways[was.Way], time.Duration(at.Time.Since(was.Since)), err
	return e
}

// release sends the release of a tenure, whose last level was o's. It is called with the mutex held, and
// gives it back. No caller's context can end it, and it takes no longer than an Unlock has: the wait for a
// place counts.
func (l *lock) release(t *core.Tenure, o terms.Owner, now core.Now) error {
	c, n := l.shard.client, l.name
	releases := &c.wire.Limits(n.Slot).Releases
	place, ok := releases.TryEnter()
	if !ok {
		l.shard.exit(l)
		ctx := c.wire.Deadline(time.Now())
		var err error
		place, err = releases.Enter(ctx, nil)
		now = l.again()
		if err != nil {
			l.LeaveToKeeper(t, now)
			ends := c.clock.time(t.Ends())
			l.shard.exit(l)
			return errUnconfirmed(n, o, ends, err)
		}
	}
	k := l.shard.workOf(l, t)
	cmd := k.poll(place, now)
	if cmd.Op == core.None { // while it waited for a place Redis has said that it does not have the tenure
		place.Leave()
		l.shard.carryOut()
		return l.released(o, l.shard.released, time.Time{}, nil)
	}
	sent := c.sending(k, cmd, now)
	l.shard.exit(l)

	// To wait for a context as well costs 3 % of the throughput of many goroutines.
	ctx := context.Background()
	if !ok || !c.wire.Ends() {
		ctx = c.wire.Deadline(time.Now())
	}
	a := c.carry(ctx, sent)
	place.Leave()
	if a.sent.IsLate() {
		a.sent.GiveUp() // the keeper sends the release again
	}

	now = l.again()
	a.Settled = c.wire.IsSettled(k.sent)
	var ends time.Time
	if a.Fault != core.Answered && l.Has(t) {
		ends = c.clock.time(t.Ends())
	}
	l.answer(&sent.cmd, a.Reply, now)
	c.sent(sent)
	if t.Want() == core.Parted && l.Has(t) { // it counts for nothing any more
		k.parted = true
		c.shared.TenureOver()
	}
	l.shard.carryOut()
	return l.released(o, l.shard.released, ends, a.err)
}

// released counts how a release has ended, gives the mutex back, and returns the error of the call. Redis has said err.
func (l *lock) released(o terms.Owner, cause core.Cause, ends time.Time, err error) error {
	n := l.name
	if cause == core.KeyGone {
		l.shard.counts.Lost[terms.LostKeyGone]++
	}
	l.shard.exit(l)
	switch {
	case err != nil && wire.Released(err):
		return fmt.Errorf("rlock: unlock %q: %s: it is released, but the waiters were not told, and look again within two seconds: %w", n.Key, o.Title(), wire.Explain(err))
	case cause == core.KeyGone:
		return n.LostError(o, client.ErrGone)
	case cause == core.Unconfirmed:
		return errUnconfirmed(n, o, ends, wire.Explain(err))
	}
	return nil
}

func errUnconfirmed(n *client.Name, o terms.Owner, ends time.Time, err error) error {
	return fmt.Errorf("rlock: unlock %q: %s: %w, it is tried again until the lease ends at %s: %w",
		n.Key, o.Title(), terms.ErrUnconfirmed, ends.Format(time.TimeOnly), err)
}

// advice returns a hint for o, which has nothing to unlock: the lock's owners in this process; ""
// for none.
func (l *lock) advice(o terms.Owner) string {
	if !l.IsHeld() {
		return ""
	}
	holder := terms.Owner{ID: uint64(l.Levels()[0].Owner)}
	if holder == o {
		return ""
	}
	how := "unlock there, or use Acquire or WithOwner"
	if holder.OfHandle() {
		how = "call its Release"
	}
	return fmt.Sprintf("it is held by %s of this process: %s", holder.Words(), how)
}

// notHeld says why o has nothing to unlock.
func (of *Lock) notHeld(o terms.Owner, h *hold) error {
	c, n := of.driver, of.Name
	losses := &c.shared.Losses
	var cause error
	nothing := terms.ErrNotHeld // a handle forgets nothing
	if h == nil {
		cause = losses.Unlock(n.LossKey(o), of.Shared)
		nothing = losses.NotHeld()
	} else if cause = h.giveBack(); cause != nil && !h.isPart() {
		losses.Unlock(n.LossKey(o), of.Shared)
	}
	return c.shared.NothingToUnlock(n.Key, o, cause, nothing)
}
