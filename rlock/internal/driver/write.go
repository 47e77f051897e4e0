package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/enum"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A write is a guarded write on its way.
type write struct {
	source     string
	keys, args []string
	nonce      string
	reply      rueidis.RedisMessage
	fate       writeFate // of one that a release carries
	err        error     // writeRefused: why
}

// newWrite copies what the caller may write to once it has left, when the command may still have to be built.
func newWrite(source string, keys, args []string) *write {
	return &write{source: source, keys: slices.Clone(keys), args: slices.Clone(args), nonce: wire.Nonce()}
}

// A writeFate is what the answer to a release says of the guarded write that it carries.
type writeFate uint8

const (
	writeUnknown writeFate = iota // it may have been executed, or may still be
	writeRan
	writeFenced  // it was not executed, since the lock does not have the tenure
	writeRefused // nor, since Redis has refused it
)

func (f writeFate) String() string {
	return enum.Name(f, "writeFate", "writeUnknown", "writeRan", "writeFenced", "writeRefused")
}

// A guard is what a kind of lock looks at before a guarded write. Its keys and arguments are the last of the script.
type guard struct {
	*wire.Guard
	keys, args []string
}

// call returns the call of a guarded write.
func (g *guard) call(w *write) wire.Call {
	return wire.Call{Script: g.Script(w.source), Keys: slices.Concat(w.keys, g.keys), Args: slices.Concat(w.args, g.args, []string{w.nonce})}
}

// Write implements [Handle].
func (h *hold) Write(ctx context.Context, source string, keys, args []string) (reply rueidis.RedisMessage, err error) {
	c, n := h.lock.driver, h.lock.Name
	if err := c.Redis.CheckKeys(&n.Keys, keys); err != nil {
		return reply, fmt.Errorf("rlock: guarded write of lock %q: %w", n.Key, err)
	}
	for { // again if another tenure has come below the hold of a reader meanwhile
		l, now := h.enter()
		if l == nil {
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, terms.ErrFenced, h.Err())
		}
		w := c.newCall(&core.Call{Owner: core.OwnerID(h.owner.ID), Mode: h.lock.mode(), Handle: h, Until: core.Never})
		w.write = newWrite(source, keys, args)
		l.Write(&w.Call)
		l.run(ctx, w, now)
		l.shard.exit(l)
		fault, found, cause, err, sent := w.Fault, w.Found, w.Cause, w.err, w.write
		c.done(w)
		switch {
		case cause == core.KeyGone:
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, terms.ErrFenced, h.Err())
		case fault == core.Unknown:
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: it may have been executed, or may be as long as Redis has the lock for the hold: %w",
				n.Key, terms.ErrUnconfirmed, wire.ExplainTo(ctx, cmp.Or(err, ctx.Err())))
		case fault == core.NotRun && err == nil: // it had no slot
			return reply, fmt.Errorf("rlock: guarded write of lock %q: %w: %w", n.Key, wire.ErrCrowded, ctx.Err())
		case fault != core.Answered || found:
			return sent.reply, err
		}
	}
}
