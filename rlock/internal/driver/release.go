package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// unlockLevel closes the level of the handle h. If h is nil, it closes the innermost level of o
// without a handle.
func (l *NamedLock) unlockLevel(ctx context.Context, o contract.Owner, h *hold) error {
	c, n := l.driver, l.Name
	if n.Err != nil {
		return n.Err
	}
	one, now := c.enterIfAny(n, core.OwnerID(o.ID))
	if one == nil {
		return l.notHeld(o, h)
	}
	if h != nil && h.stayUntil > now.Time && one.hasHandle(h) {
		one.StayUntil(h.stayUntil)
	}
	was, t, ok := one.Unlock(core.OwnerID(o.ID), modeFor(l.Shared), handleOf(o, h), now)
	if !ok {
		advice := one.advice(o)
		one.shard.exit(one)
		err := l.notHeld(o, h)
		if advice != "" && !errors.Is(err, contract.ErrLost) {
			err = fmt.Errorf("%w: %s", err, advice)
		}
		return err
	}
	one.shard.counts.CountClosed(was.First)
	if h != nil {
		h.released = true
	}
	var err error
	if t == nil {
		one.shard.exit(one)
	} else {
		err = one.sendRelease(t, nil, nil, o, now)
	}
	if c.Observer.On() && !h.isPart() {
		c.Observer.TellReleased(ctx, c.closedLevel(n, &was, now, err), contract.LostKeyGone)
	}
	return err
}

// handleOf returns the handle of a level of o for package core.
func handleOf(o contract.Owner, h *hold) any {
	switch {
	case h != nil:
		return h
	case o.Guest:
		return core.Guests
	}
	return nil
}

// closedLevel returns the event of a level that was closed.
func (c *Client) closedLevel(n *Name, was *core.Level, at core.Now, err error) contract.Event {
	e := n.Event(levelOwner(was), was.Mode == core.Shared)
	e.Way, e.Held, e.Err = ways[was.Way], time.Duration(at.Time.Since(was.Since)), err
	return e
}

// sendRelease releases the tenure t, with a guarded write unless the write is nil, or passes the
// lock on. o had the last level. Unless h is nil, the context of h ends before the command is sent.
// No context of a caller ends sendRelease. It takes no longer than an Unlock may, the wait for a
// slot included.
//
// REQUIRES: shard.mu, which it gives back.
func (l *lockState) sendRelease(t *core.Tenure, h *hold, write *wire.Write, o contract.Owner, now core.Now) error {
	c, n, id := l.shard.client, l.name, t.ID
	w := c.newWaiter(&core.Call{Carries: write != nil})
	defer c.recycle(w)
	w.write = write
	l.BeginRelease(t, &w.Call)
	if h != nil {
		l.shard.exit(l)
		h.End(cmp.Or(h.lost, contract.Released(n.Key)))
		now = l.shard.lock()
	}
	w.Until = now.Time.After(core.Span(c.Redis.Patience))
	ctx := context.Background()
	slot, atOnce := l.slots(w).TryEnter()
	if !atOnce || !c.wire.Ends() { // else the connection ends the command, and a context to wait for costs 3 % of the throughput of many goroutines
		ctx = c.wire.Deadline(c.clock.timeOf(now.Time))
	}
	l.runCall(ctx, w, slot, now)
	var ends time.Time
	switch t := l.Find(id); {
	case w.Cause == core.KeyGone:
		l.shard.counts.Lost[contract.LostKeyGone]++
	case t == nil:
	case w.Cause == core.Unconfirmed:
		ends = c.clock.timeOf(t.GoneBy())
	}
	l.shard.exit(l)
	switch {
	case w.err != nil && wire.Released(w.err):
		return fmt.Errorf("rlock: unlock %q: %s: it is released, but the waiters were not told, and look again within two seconds: %w", n.Key, o.Title(), wire.Explain(w.err))
	case w.Cause == core.KeyGone:
		return n.lostError(o, errGone)
	case w.Cause == core.Unconfirmed:
		return fmt.Errorf("rlock: unlock %q: %s: %w, it is tried again until the lease ends at %s: %w",
			n.Key, o.Title(), contract.ErrUnconfirmed, ends.Format(time.TimeOnly), wire.Explain(cmp.Or(w.err, wire.ErrCrowded)))
	}
	return nil
}

// advice returns a hint for an owner that has nothing to unlock, which names the holder in this
// process; "" if there is none.
//
// REQUIRES: shard.mu.
func (l *lockState) advice(o contract.Owner) string {
	if !l.IsHeld() {
		return ""
	}
	holder := levelOwner(&l.Levels()[0])
	if holder == o {
		return ""
	}
	how := "unlock there, or use Acquire or WithOwner"
	switch {
	case holder.Guest:
		how = "unlock with that context"
	case holder.OfHandle():
		how = "call its Release"
	}
	return fmt.Sprintf("it is held by %s of this process: %s", holder.Words(), how)
}

// notHeld returns the error of an owner that has nothing to unlock.
func (l *NamedLock) notHeld(o contract.Owner, h *hold) error {
	c, n := l.driver, l.Name
	losses := &c.Losses
	var cause error
	nothing := contract.ErrNotHeld // a handle remembers its loss itself
	if h == nil {
		cause = losses.Unlock(n.lossKey(o), l.Shared)
		nothing = losses.NotHeld()
	} else if cause = h.acceptLoss(); cause != nil && !h.isPart() {
		losses.Unlock(n.lossKey(o), l.Shared)
	}
	return c.NothingToUnlock(n.Key, o, cause, nothing)
}

// NothingToUnlock returns the error of an owner that has nothing to unlock: the cause of its loss,
// or, if that is nil, an error that wraps notHeld.
func (c *Client) NothingToUnlock(name string, o contract.Owner, cause, notHeld error) error {
	switch {
	case cause != nil:
		return cause
	case c.Closed.Load():
		return fmt.Errorf("rlock: unlock %q: %w", name, wire.ErrClosed)
	}
	return fmt.Errorf("rlock: unlock %q: %s: %w", name, o.Title(), notHeld)
}

// A release may carry a guarded write: one command executes the write and then releases the tenure,
// in one step. It is sent once. If it has no answer the keeper goes on with an ordinary release,
// after which the write finds no tenure.

// ReleaseWith implements [Handle].
func (h *hold) ReleaseWith(ctx context.Context, source string, keys, args []string) (reply rueidis.RedisMessage, err error) {
	c, n := h.lock.driver, h.lock.Name
	if err := c.Redis.CheckKeys(&n.Keys, keys); err != nil {
		return reply, fmt.Errorf("rlock: release of lock %q with a guarded write: %w", n.Key, err)
	}
	l, now := h.enterHold()
	if l == nil {
		err := fmt.Errorf("rlock: release of lock %q with a guarded write: %w: %w", n.Key, contract.ErrFenced, h.Err())
		_ = h.Release(ctx) // the hold is over, and its owner gives it back
		return reply, err
	}
	if h.stayUntil > now.Time {
		l.shard.exit(l)
		return h.writeAndRelease(ctx, source, keys, args)
	}
	was, t, alone := l.UnlockWith(core.OwnerID(h.owner.ID), modeFor(h.lock.Shared), h, now)
	if !alone {
		l.shard.exit(l)
		return h.writeAndRelease(ctx, source, keys, args)
	}
	h.released = true
	l.shard.counts.CountClosed(was.First)
	sent := wire.NewWrite(source, keys, args)
	err = l.sendRelease(t, h, sent, h.owner, now)
	if c.Observer.On() && !h.isPart() {
		c.Observer.TellReleased(ctx, c.closedLevel(n, &was, now, err), contract.LostKeyGone)
	}
	switch sent.Fate {
	case wire.WriteRan:
		failed := sent.Reply.Error()
		if rueidis.IsRedisNil(failed) {
			failed = nil
		}
		return sent.Reply, cmp.Or(err, n.writeError(failed))
	case wire.WriteFenced:
		return reply, fmt.Errorf("rlock: release of lock %q with a guarded write: %w: %w", n.Key, contract.ErrFenced, cmp.Or(err, n.lostError(h.owner, errGone)))
	case wire.WriteRefused:
		return reply, fmt.Errorf("rlock: release of lock %q: its guarded write was not executed: %w", n.Key, wire.Explain(sent.Err))
	case wire.WriteUnknown:
		return reply, err
	default:
		panic("driver: a guarded write that is " + sent.Fate.String())
	}
}

// writeAndRelease is ReleaseWith in two commands, for a hold whose release sends no command, since
// there are other levels, and for one with a least hold. The context of the caller ends neither
// command.
func (h *hold) writeAndRelease(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.lock.driver.Redis.Patience)
	defer cancel()
	reply, err := h.GuardedWrite(within, source, keys, args)
	return reply, cmp.Or(err, h.Release(ctx))
}

// ForceUnlock releases the lock for all its holders. It reads the holders first, so that a command
// that arrives late does not end a later tenure. A holder in this client is told at once; other
// clients of rlock get a message, and ask Redis. A key that is no lock is left as it is.
func (l *NamedLock) ForceUnlock(caller context.Context) (released bool, err error) {
	holders, err := l.Holders(caller)
	if err != nil {
		return false, err
	}
	return l.releaseByForce(caller, holders)
}

// ForceUnlockOf is ForceUnlock for the owners with the shown texts, and for no other holder. The
// script compares the tenure of a holder, and a hand-off inside a process keeps the tenure. So
// ForceUnlockOf reads the holders again, and leaves a holder whose text has changed.
func (l *NamedLock) ForceUnlockOf(caller context.Context, shown []wire.OwnerText) (released bool, err error) {
	holders, err := l.Holders(caller)
	if err != nil {
		return false, err
	}
	bare := func(text wire.OwnerText) wire.OwnerText { // without the note, whose time a renewal may have changed
		owner, _ := text.CutNote()
		return owner
	}
	holders = slices.DeleteFunc(holders, func(holder wire.OwnerText) bool {
		return !slices.ContainsFunc(shown, func(one wire.OwnerText) bool { return bare(one) == bare(holder) })
	})
	return l.releaseByForce(caller, holders)
}

// Holders returns the texts of the owners in Redis that an unlock by force has to release.
func (l *NamedLock) Holders(ctx context.Context) ([]wire.OwnerText, error) {
	if err := l.awaitConnection(ctx); err != nil {
		return nil, err
	}
	return kinds[l.Name.KindID].asks.holders(ctx, l)
}

// LetThrough makes a ticket in the queue take the lock over from one of the holders, which has the
// grace left.
func (l *NamedLock) LetThrough(ctx context.Context, ticket wire.OwnerText, grace time.Duration, holders []wire.OwnerText) (wire.Passage, error) {
	if err := l.awaitConnection(ctx); err != nil {
		return 0, err
	}
	c := l.driver
	within, cancel := context.WithTimeout(ctx, c.Redis.Patience)
	defer cancel()
	passage, err := c.Redis.PutTicketFirst(within, &l.Name.Keys, ticket, grace, holders)
	if err != nil {
		err = wire.ExplainTo(ctx, err)
	}
	return passage, err
}

// nameVictims fills in the texts of the holders that the Look of a call which takes the lock over
// tells, or takes out.
//
// REQUIRES: shard.mu.
func (l *lockState) nameVictims(x *exchange, w *waiter) {
	texts := make(map[core.ID]wire.OwnerText)
	for _, text := range w.inTheWay {
		texts[l.shard.client.Redis.HolderID(text)] = text
	}
	for _, t := range x.Cmd.Tells {
		x.Tells = append(x.Tells, wire.Telling{Holder: texts[t.ID], Left: t.Left})
	}
	x.Ends = texts[x.Cmd.Ends.ID]
}

// releaseByForce releases the holders, one after the other.
func (l *NamedLock) releaseByForce(caller context.Context, holders []wire.OwnerText) (released bool, err error) {
	c := l.driver
	ctx, cancel := context.WithTimeout(caller, c.Redis.Patience)
	defer cancel()
	for _, holder := range holders {
		id := c.Redis.IDOf(holder)
		one, now := c.enterTenure(l.Name.Key, holder, id) // the lock may be of another kind
		if one == nil {
			one, now = c.enter(l.Name, core.OwnerID(holder.OwnerID()))
		}
		w := c.newWaiter(&core.Call{Named: id, Until: core.Never})
		w.passed = holder
		one.BeginForce(&w.Call)
		one.runCall(ctx, w, nil, now)
		one.shard.exit(one)
		fault, found, err := w.Fault, w.Found, cmp.Or(w.err, ctx.Err())
		if c.recycle(w); fault != core.Answered {
			return released, fmt.Errorf("rlock: force unlock %q: %w", l.Name.Key, wire.ExplainTo(caller, err))
		}
		released = released || found
	}
	return released, nil
}
