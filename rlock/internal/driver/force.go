package driver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// ForceUnlock frees the lock from its holders. It looks first, so that a command that arrives late ends no other
// client's tenure. A holder of this client learns it at once; other clients of rlock are told, and ask Redis. A key
// that holds something else than a lock is left as it is.
func (l *Lock) ForceUnlock(caller context.Context) (released bool, err error) {
	holders, err := kinds[l.Name.KindID].asks.holders(caller, l)
	if err != nil {
		return false, err
	}
	r := l.driver.shared.Redis
	ctx, cancel := r.Within(caller)
	defer cancel()
	for _, holder := range holders {
		place, err := r.Limits(l.Name.Slot).Releases.Enter(ctx, nil)
		var left int64
		if err == nil {
			left, err = l.force(ctx, holder).AsInt64()
			place.Leave()
		}
		l.forced(holder, left > 0, err)
		if err != nil {
			return false, fmt.Errorf("rlock: force unlock %q: %w", l.Name.Key, wire.ExplainTo(caller, err))
		}
		released = released || left > 0
	}
	return released, nil
}

// force releases the holder in Redis, and tells its client if that is another of rlock.
func (l *Lock) force(ctx context.Context, holder string) rueidis.RedisResult {
	e, n, k := l.driver.shared, l.Name, kinds[l.Name.KindID]
	cmd := core.Command{Permits: n.Permits}
	if k.core.Fenced {
		cmd.Tokens = 1 // for the waiter that is granted the lock
	}
	s := wire.Step{Lease: "1", Number: number(&cmd), Leave: wire.Member{Mode: "x", Ticket: holder}}
	s.Polls = k.foreign && e.SeesStep(n, s, time.Now())
	call := e.Redis.Step(k.step, &n.Keys, s)
	if !wire.IsOurs(holder) || strings.HasPrefix(holder, e.ID.Prefix) || e.Config.NoClientChannel {
		return e.Redis.Do(ctx, call)
	}
	return e.Redis.DoAndTell(ctx, call, wire.ClientMessage{Verb: wire.Forced, Owner: holder, Text: n.Key})
}

// forced tells the lock what came of the release of a holder.
func (l *Lock) forced(holder string, released bool, err error) {
	one, now := l.driver.enterIfAny(l.Name, ownerIn(holder))
	if one == nil {
		return
	}
	id := l.driver.idOf(holder)
	switch t := one.Owner(); {
	case t == nil || t.ID != id:
	case err != nil:
		one.Confirm(now) // which finds out
	case released:
		one.ForcedOut(id, now)
	}
	one.shard.exit(one)
}
