package rlock

import (
	"context"
	"fmt"
	"slices"
)

// newRed returns the lock that is most of the locks of that name at the clients.
func newRed(clients []*Client, name string) form {
	refused := func(format string, args ...any) form {
		return refusing(name, fmt.Errorf("rlock: red lock %q: %w: "+format, append([]any{name, ErrInvalidConfig}, args...)...))
	}
	var parts []form
	for i, c := range clients {
		if c == nil {
			return refused("client %d is nil", i)
		}
		if other := slices.IndexFunc(clients[:i], func(other *Client) bool { return c.redis.Shares(other.redis) }); other >= 0 {
			return refused("clients %d and %d have the same server, which would count twice", other, i)
		}
		part := newSingle(c, plainKind, name)
		parts = append(parts, &part)
	}
	if len(parts) == 0 {
		return refused("it has no clients: give it one of each server, three at best")
	}
	c := newCompound(name, parts, len(parts)/2+1)
	c.gather, c.kind = c.elect, KindRed
	return c
}

// elect gathers a majority. What is still asked for when it has one, or gives up, is
// followed in the background.
func (c *compound) elect(ctx context.Context, p *compoundHold, req request) error {
	run := newCampaign(ctx, p, req)
	err := run.run(ctx)
	if err != nil {
		run.leave()
		go run.follow(nil)
		giveBack(ctx, run.holds())
		return err
	}
	p.leave = run.leave
	// Also those that have just ended: the whole must learn of their loss.
	p.add(slices.DeleteFunc(run.held, func(h handle) bool { return h == nil })...)
	if run.asked > 0 {
		go run.follow(p)
	} else {
		run.leave()
	}
	return nil
}
