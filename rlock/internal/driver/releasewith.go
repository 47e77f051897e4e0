package driver

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A release that carries a guarded write: one command, whose step takes the tenure out after the source was executed. It is
// sent once. If it has no answer the keeper goes on with a release of the usual sort, after which the write finds no tenure.

// ReleaseWith implements [Handle].
func (h *hold) ReleaseWith(ctx context.Context, source string, keys, args []string) (reply rueidis.RedisMessage, err error) {
	c, n := h.lock.driver, h.lock.Name
	if err := c.Redis.CheckKeys(&n.Keys, keys); err != nil {
		return reply, fmt.Errorf("rlock: release of lock %q with a guarded write: %w", n.Key, err)
	}
	l, now := h.enter()
	if l == nil {
		err := fmt.Errorf("rlock: release of lock %q with a guarded write: %w: %w", n.Key, terms.ErrFenced, h.Err())
		_ = h.Release(ctx) // it is over, and its owner has given it back
		return reply, err
	}
	if h.staysAt(now) {
		l.shard.exit(l)
		return h.writeAndRelease(ctx, source, keys, args)
	}
	was, t, alone := l.UnlockWith(core.OwnerID(h.owner.ID), h.lock.mode(), h, now)
	if !alone {
		l.shard.exit(l)
		return h.writeAndRelease(ctx, source, keys, args)
	}
	h.released = true
	l.shard.counts.Closed(was.First)
	sent := newWrite(source, keys, args)
	w := c.newCall(&core.Call{Until: now.Time.After(core.Span(c.wire.traits().patience)), Carries: true})
	w.write = sent
	l.Release(t, &w.Call)
	l.shard.exit(l)
	h.End(terms.Released(h.title())) // before another can have it
	err = l.release(w, t.ID, h.owner, l.again())
	if c.Observer.On() && !h.isPart() {
		c.Observer.TellReleased(ctx, c.closedLevel(n, &was, now, err), terms.LostKeyGone)
	}
	switch sent.fate {
	case writeRan:
		failed := sent.reply.Error()
		if rueidis.IsRedisNil(failed) {
			failed = nil
		}
		return sent.reply, cmp.Or(err, failed)
	case writeFenced:
		return reply, fmt.Errorf("rlock: release of lock %q with a guarded write: %w: %w", n.Key, terms.ErrFenced, cmp.Or(err, n.lostError(h.owner, ErrGone)))
	case writeRefused:
		return reply, fmt.Errorf("rlock: release of lock %q: its guarded write was not executed: %w", n.Key, wire.Explain(sent.err))
	case writeUnknown:
		return reply, err
	default:
		panic("driver: a guarded write that is " + sent.fate.String())
	}
}

// writeAndRelease is for a hold that is not the only level of its lock, whose release has no command, and for one whose lock
// stays.
func (h *hold) writeAndRelease(ctx context.Context, source string, keys, args []string) (rueidis.RedisMessage, error) {
	reply, err := h.Write(ctx, source, keys, args)
	return reply, cmp.Or(err, h.Release(ctx))
}
