package quorum

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// NewRed returns the lock that is most of the locks of that name at the clients. A nil one
// stands for a server that grants nothing.
func NewRed(clients []*engine.Client, name string) engine.Form {
	refused := func(format string, args ...any) engine.Form {
		return Refusing(name, fmt.Errorf("rlock: red lock %q: %w: "+format, append([]any{name, wire.ErrInvalidConfig}, args...)...))
	}
	var parts []engine.Form
	for i, c := range clients {
		if c == nil {
			continue
		}
		if other := slices.IndexFunc(clients[:i], func(other *engine.Client) bool { return other != nil && c.Redis.Shares(other.Redis) }); other >= 0 {
			return refused("clients %d and %d have the same server, which would count twice", other, i)
		}
		part := engine.NewLock(c, engine.PlainKind, name)
		parts = append(parts, &part)
	}
	if len(clients) == 0 {
		return refused("it has no clients: give it one of each server, three at best")
	}
	need := len(clients)/2 + 1
	if len(parts) < need {
		return refused("%d of %d clients are nil, so that there is no majority", len(clients)-len(parts), len(clients))
	}
	c := newCompound(name, engine.KindRed, parts, need)
	c.gather = c.elect
	return c
}

// elect gathers a majority. What is still asked for when it has one, or gives up, is
// followed in the background.
func (c *compound) elect(ctx context.Context, whole *hold) error {
	run := newCampaign(ctx, whole)
	err := run.run(ctx)
	if err != nil {
		run.leave()
		go run.follow(nil)
		giveBack(ctx, run.holds())
		return err
	}
	whole.leave = run.leave
	var held []engine.Handle // also those that have just ended: the whole must learn of their loss
	for _, s := range run.seats {
		if s.held != nil {
			held = append(held, s.held)
		}
	}
	whole.add(held...)
	if run.asked > 0 {
		go run.follow(whole)
	} else {
		run.leave()
	}
	return nil
}
