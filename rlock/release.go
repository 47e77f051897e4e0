package rlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// unlock takes one level off the hold of o: that of the handle h, or without one
// the innermost of that sort that was taken without. The last level passes the
// lock on, or frees it.
func (c *Client) unlock(n *name, o Owner, shared bool, h *Hold) error {
	if n.err != nil {
		return n.err
	}
	r := c.visitIfAny(n)
	if r == nil {
		return c.notHeld(n, o, shared, h)
	}
	now := time.Now()
	t := r.current(now)
	if t == nil || !t.close(o, shared, h) {
		r.exit()
		return c.notHeld(n, o, shared, h)
	}
	if h != nil {
		h.released = true
	}
	if len(t.levels) > 0 {
		t.changed(now)
		r.current(now) // the levels that are left may have asked for less
		r.exit()
		return nil
	}
	if w := r.queue.Head(); w != nil && t.mayPass(now, w.Value.request) {
		r.grant(t, w, now)
		w.Wake()
		r.exit()
		return nil
	}
	return r.release(t, now)
}

// notHeld says why o has nothing to unlock.
func (c *Client) notHeld(n *name, o Owner, shared bool, h *Hold) error {
	var cause error
	if h == nil {
		cause = c.losses.unlock(lossKey{n.id, n.key, o}, shared)
	} else if cause = h.giveBack(); cause != nil {
		c.losses.unlock(lossKey{n.id, n.key, o}, shared)
	}
	switch {
	case cause != nil:
		return cause
	case c.closed.Load():
		return fmt.Errorf("rlock: unlock %q: %w", n.key, ErrClosed)
	}
	return fmt.Errorf("rlock: unlock %q: owner %s: %w", n.key, o, ErrNotHeld)
}

// release ends the tenure and frees the lock in Redis. It is called with the
// mutex held, and gives it back. No caller's context can end it.
func (r *room) release(t *tenure, now time.Time) error {
	c := r.client
	r.tenure = nil
	r.busy = true
	r.tokens = t.tokens.next()
	t.phase = leaving
	if !c.keeper.Stop(t) {
		r.pointedTo = true
	}
	if r.yielding = t.contested && r.queue.Len() > 0; r.yielding {
		// The message to come is that of this release, not an older one.
		r.subscribe()
		select {
		case <-r.sub.C():
		default:
		}
		if now.After(r.alone) {
			r.behind = t.others
		}
	}
	r.shard.mu.Unlock()

	released, err := t.release(c.deadline.context(now))

	r.shard.mu.Lock()
	if t.flying {
		t.landed = make(chan struct{})
		r.shard.mu.Unlock()
		<-t.landed // as long as the release took, at most
		r.shard.mu.Lock()
	}
	r.busy = false
	if err != nil {
		_, err = diagnose(err)
	}
	if errors.Is(err, ErrWrongType) {
		released, err = false, nil // somebody has put another key in its place
	}
	switch {
	case err != nil:
		r.yielding = false
		t.disown(time.Now())
		err = fmt.Errorf("rlock: unlock %q: owner %s: %w, it is tried again until the lease ends at %s: %w",
			r.name.key, t.owner, ErrUnconfirmed, t.until.Format(time.TimeOnly), err)
	case !released:
		t.end()
		err = fmt.Errorf("rlock: lock %q of owner %s: %w: %w", r.name.key, t.owner, ErrLost, errGone)
	default:
		t.end()
	}
	r.wakeHead()
	r.exit()
	return err
}

func (t *tenure) release(ctx context.Context) (released bool, err error) {
	c := t.room.client
	place, err := c.nodes.enter(ctx, t.room.name.slot)
	if err != nil {
		return false, err
	}
	defer place.leave()
	reply, err := t.room.name.kind().release(t).do(ctx, c.redis).AsInt64()
	return reply == 1, err
}

// forceUnlock frees the lock from the holder that it finds. It looks first, so
// that a command that arrives late ends nobody else's tenure. A holder of this
// client learns it at once, others when they renew.
func (c *Client) forceUnlock(ctx context.Context, n *name) (bool, error) {
	if n.err != nil {
		return false, n.err
	}
	if c.closed.Load() {
		return false, fmt.Errorf("rlock: force unlock %q: %w", n.key, ErrClosed)
	}
	ctx, cancel := within(ctx)
	defer cancel()
	holders, err := c.redis.Do(ctx, c.redis.B().Hkeys().Key(n.key).Build()).AsStrSlice()
	var released int64
	if err == nil && len(holders) > 0 {
		released, err = call{releaseScript, []string{n.key, n.channel}, []string{holders[0], c.publish}}.do(ctx, c.redis).AsInt64()
		if r := c.visitIfAny(n); r != nil {
			if t := r.tenure; t != nil && strings.HasPrefix(holders[0], t.text[:tenureLen]) {
				switch {
				case err != nil:
					t.mirror() // which finds out
				case released == 1:
					t.lose(errors.New("it was unlocked by force"))
					t.end()
				}
			}
			r.exit()
		}
	}
	if err != nil {
		_, err = diagnose(err)
		return false, fmt.Errorf("rlock: force unlock %q: %w", n.key, err)
	}
	return released == 1, nil
}
