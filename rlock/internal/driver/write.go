package driver

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A write is a guarded write on its way.
type write struct {
	source     string
	keys, args []string
	reply      rueidis.RedisMessage
}

// guarded returns the call of a guarded write. The last keys and arguments are those of the guard.
func guarded(g *wire.Guard, w *write, keys, args []string) wire.Call {
	return wire.Call{Script: g.Script(w.source), Keys: slices.Concat(w.keys, keys), Args: slices.Concat(w.args, args)}
}

// Write implements [client.Handle].
func (h *hold) Write(ctx context.Context, source string, keys, args []string) (reply rueidis.RedisMessage, err error) {
	c, n := h.lock.driver, h.lock.Name
	if err := c.shared.Redis.CheckKeys(&n.Keys, keys); err != nil {
		return reply, fmt.Errorf("rlock: guarded write of lock %q: %w", n.Key, err)
	}
	for { // again if another tenure has come below the hold of a reader meanwhile
		place, err := c.wire.Limits(n.Slot).Asks.Enter(ctx, nil)
		if err != nil {
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w", n.Key, err)
		}
		sent := h.writes()
		if sent == nil {
			place.Leave()
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, terms.ErrFenced, h.Err())
		}
		sent.write = &write{source: source, keys: keys, args: args}
		switch a := h.send(ctx, sent, place); {
		case a.Fault == core.Unknown:
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: it may have been executed, or may be as long as Redis has the lock for the hold: %w",
				n.Key, terms.ErrUnconfirmed, wire.ExplainTo(ctx, a.err))
		case a.Fault != core.Answered || a.Found == core.Holds:
			return sent.write.reply, a.err
		}
	}
}

// writes begins a guarded write, and returns the command; nil if the hold is over.
func (h *hold) writes() *call {
	l, now := h.enter()
	if l == nil {
		return nil
	}
	defer l.shard.exit(l)
	t, follows, ok := l.Write(core.OwnerID(h.owner.ID), h.lock.mode(), h, now)
	if !ok {
		return nil
	}
	return l.shard.client.sending(l.shard.workOf(l, l.Owner()), core.Command{Op: core.Write, Ticket: t, Follows: follows}, now)
}

// send sends a guarded write, and returns its answer, or that there is none when ctx ends.
func (h *hold) send(ctx context.Context, sent *call, place *wire.Limit) answer {
	c := h.lock.driver
	if c.wire.abandonable() {
		return h.wrote(sent, c.carry(ctx, sent), place)
	}
	answered := make(chan answer, 1) // as in lock.fly
	if !c.wire.Start(func() { answered <- h.wrote(sent, c.carry(c.wire.Deadline(time.Now()), sent), place) }) {
		return h.wrote(sent, answer{Reply: core.Reply{Fault: core.NotRun}, err: wire.ErrClosed}, place)
	}
	select {
	case a := <-answered:
		return a
	case <-ctx.Done():
		return answer{Reply: core.Reply{Fault: core.Unknown}, err: ctx.Err()}
	}
}

// wrote handles the answer to a guarded write, which has its place until then. The lock may have gone by now.
func (h *hold) wrote(sent *call, a answer, place *wire.Limit) answer {
	c := h.lock.driver
	if a.heard {
		place.Heard()
	}
	place.Leave()
	if l, now := c.enterIfAny(h.lock.Name, core.OwnerID(h.owner.ID)); l != nil {
		l.Wrote(sent.cmd.ID, h.lock.mode(), a.Reply, now)
		l.shard.exit(l)
	}
	return a
}

// write sends a guarded write. The answer of a server decides, also if it is an error: then a source was executed in part,
// or not at all, and will not be.
func (r *redis) write(ctx context.Context, c *call) (a answer) {
	command := c.kind.guard(c)
	result, sent := r.Send(ctx, wire.Order{Call: command, Slot: c.name.Slot, First: c.first, At: r.client.clock.time(c.at)})
	if a.sent = sent; sent.IsLate() {
		sent.GiveUp()
		a.sent = wire.Sent{}
	}
	c.write.reply, a.err = result.ToMessage()
	if rueidis.IsRedisNil(a.err) {
		a.err = nil
	}
	a.Found = core.Holds
	switch a.heard = wire.Answered(a.err); {
	case wire.Fenced(a.err):
		a.Found = core.Nowhere
	case a.heard:
	default:
		a.Fault = faultOf(core.Write, a.err)
	}
	return a
}
