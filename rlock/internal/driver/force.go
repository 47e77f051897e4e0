package driver

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// ForceUnlock frees the lock from its holders. It looks first, so that a command that arrives late ends no other
// client's tenure. A holder of this client learns it at once; other clients of rlock are told, and ask Redis. A key
// that holds something else than a lock is left as it is.
func (l *Lock) ForceUnlock(caller context.Context) (released bool, err error) {
	if err := l.awaits(caller); err != nil {
		return false, err
	}
	holders, err := kinds[l.Name.KindID].asks.holders(caller, l)
	if err != nil {
		return false, err
	}
	c := l.driver
	ctx, cancel := context.WithTimeout(caller, c.wire.traits().patience)
	defer cancel()
	for _, holder := range holders {
		one, now := c.enter(l.Name, ownerIn(holder))
		w := c.newCall(&core.Call{Named: c.idOf(holder), Until: core.Never})
		w.passed = holder
		one.Force(&w.Call)
		one.run(ctx, w, now)
		one.shard.exit(one)
		fault, found, err := w.Fault, w.Found, cmp.Or(w.err, ctx.Err())
		if c.done(w); fault != core.Answered {
			return false, fmt.Errorf("rlock: force unlock %q: %w", l.Name.Key, wire.ExplainTo(caller, err))
		}
		released = released || found
	}
	return released, nil
}
