package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// look sends a command that changes nothing about the lock's key, and decodes the
// reply: see survey.
func look[T any](ctx context.Context, c *Client, n *name, decode func(rueidis.RedisResult) (T, error), command string, args ...string) (reply T, err error) {
	if n.err != nil {
		return reply, n.err
	}
	replies, err := c.survey(ctx, n, func() []rueidis.Completed {
		return []rueidis.Completed{c.redis.B().Arbitrary(command).Keys(n.key).Args(args...).Build()}
	})
	if err == nil {
		reply, err = decode(replies[0])
	}
	if err != nil {
		_, err = diagnose(err)
		return reply, fmt.Errorf("rlock: look at %q: %w", n.key, err)
	}
	return reply, nil
}

// survey sends commands that change nothing about a lock, in one pipeline to the node that
// serves it, and returns their replies. An error that is a server's answer stands in the
// replies; faults that pass are tried again, for as long as a caller of Unlock would wait.
//
// Its commands are arbitrary ones, since rueidis repeats those that it knows to be harmless
// until their context ends, each time with a place in the ring.
func (c *Client) survey(ctx context.Context, n *name, build func() []rueidis.Completed) ([]rueidis.RedisResult, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	var last error // of the attempts so far
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		replies, err := c.surveyOnce(ctx, n, build)
		if err == nil {
			err = passing(replies)
		}
		switch {
		case err == nil:
			return replies, nil
		case ctx.Err() != nil:
			return nil, timeUp(ctx, last)
		case c.closed.Load():
			return nil, ErrClosed
		}
		last = err
		select {
		case <-time.After(jitter(retry)):
		case <-ctx.Done():
		}
	}
}

// passing returns the first error among the replies that may pass by itself.
func passing(replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			if f, err := diagnose(err); f != never {
				return err
			}
		}
	}
	return nil
}

// surveyOnce is one attempt of a survey. It returns when ctx ends, but the pipeline keeps
// its place until it has ended: rueidis keeps it in its ring for as long.
func (c *Client) surveyOnce(ctx context.Context, n *name, build func() []rueidis.Completed) ([]rueidis.RedisResult, error) {
	place, err := c.nodes.to(n.slot).asks.enter(ctx, c.ctx.Done())
	if err != nil {
		return nil, err
	}
	landed := make(chan []rueidis.RedisResult, 1)
	started := c.background.start(func() {
		defer place.leave()
		commands := build()
		c.traffic.commands.Add(int64(len(commands)))
		replies := c.redis.DoMulti(c.deadline.context(time.Now()), commands...)
		if answered(replies[0].Error()) {
			place.heard()
		}
		landed <- replies
	})
	if !started {
		place.leave()
		return nil, ErrClosed
	}
	select {
	case replies := <-landed:
		return replies, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// fields returns those of the lock's hash, none if nobody has it.
func fields(ctx context.Context, c *Client, n *name) ([]string, error) {
	return look(ctx, c, n, rueidis.RedisResult.AsStrSlice, "HKEYS")
}
