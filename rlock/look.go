package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// look sends a command that changes nothing about the lock's key, and decodes the
// reply. It tries again for as long as a caller of Unlock would wait, unless Redis has
// answered, or ctx ends before.
func look[T any](ctx context.Context, c *Client, n *name, decode func(rueidis.RedisResult) (T, error), command string, args ...string) (reply T, err error) {
	switch {
	case n.err != nil:
		return reply, n.err
	case c.closed.Load():
		return reply, fmt.Errorf("rlock: look at %q: %w", n.key, ErrClosed)
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	var last error // of the attempts so far
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		if reply, err = decode(c.glance(ctx, n, command, args)); err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			err = timeUp(ctx, last)
			break
		}
		var f fault
		if f, err = diagnose(err); f == never || c.closed.Load() {
			break
		}
		last = err
		select {
		case <-time.After(jitter(retry)):
		case <-ctx.Done():
		}
	}
	return reply, fmt.Errorf("rlock: look at %q: %w", n.key, err)
}

// glance is one attempt of a look. It returns when ctx ends, but the command keeps its
// place until it has ended: rueidis keeps it in its ring for as long.
func (c *Client) glance(ctx context.Context, n *name, command string, args []string) rueidis.RedisResult {
	place, err := c.nodes.to(n.slot).asks.enter(ctx, nil)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	landed := make(chan rueidis.RedisResult, 1)
	started := c.background.start(func() {
		defer place.leave()
		// An arbitrary command, since rueidis repeats those that it knows to be
		// harmless until their context ends, each time with a place in the ring.
		result := c.redis.Do(c.deadline.context(time.Now()), lookCommand(c.redis, n, command, args))
		if answered(result.Error()) {
			place.heard()
		}
		landed <- result
	})
	if !started {
		place.leave()
		return rueidis.NewErrorResult(ErrClosed)
	}
	select {
	case result := <-landed:
		return result
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

// lookCommand is about the lock's key, or TIME, which is about the server.
func lookCommand(redis rueidis.Client, n *name, command string, args []string) rueidis.Completed {
	if command == "TIME" {
		return redis.B().Time().Build()
	}
	return redis.B().Arbitrary(command).Keys(n.key).Args(args...).Build()
}

// fields returns those of the lock's hash, none if nobody has it.
func fields(ctx context.Context, c *Client, n *name) ([]string, error) {
	return look(ctx, c, n, rueidis.RedisResult.AsStrSlice, "HKEYS")
}
