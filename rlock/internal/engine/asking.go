package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// answerTime is how long an answer is waited for.
const answerTime = time.Second

// Ask asks the clients with these ids what they hold and wait for, and returns the answers
// that come: see package rlock.
func (c *Client) Ask(ctx context.Context, ids []string) ([]wire.ClientAnswer, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	question, beginning := wire.Question(c.ID)
	heard := make(chan string, 2*len(ids)) // twice, since anybody may publish there
	sub := c.hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), func(message string) {
		if text, ok := strings.CutPrefix(message, beginning); ok {
			select {
			case heard <- text:
			default:
			}
		}
	})
	defer sub.Close()
	if err := c.confirmed(ctx, sub); err != nil {
		return nil, err
	}
	silent := make(map[string]bool) // that may answer yet
	for _, id := range ids {
		listeners, err := c.tell(ctx, id, question)
		if err != nil {
			return nil, err
		}
		if listeners != 0 {
			silent[id] = true
		}
	}
	return c.answersOf(ctx, silent, heard), nil
}

// tell is [wire.Redis.Tell] with an end of its own.
func (c *Client) tell(ctx context.Context, id string, m wire.ClientMessage) (listeners int64, err error) {
	within, cancel := c.Redis.Within(ctx)
	defer cancel()
	listeners, err = c.Redis.Tell(within, id, m)
	switch {
	case err == nil:
		return listeners, nil
	case ctx.Err() != nil:
		return 0, wire.Over(ctx)
	case within.Err() != nil:
		return 0, wire.ErrNoAnswer
	}
	_, err = wire.Diagnose(err)
	return 0, err
}

// answersOf returns the first answer of each of the clients, as they are heard.
func (c *Client) answersOf(ctx context.Context, silent map[string]bool, heard <-chan string) (answers []wire.ClientAnswer) {
	patience := time.NewTimer(answerTime)
	defer patience.Stop()
	for len(silent) > 0 {
		select {
		case text := <-heard:
			if a, err := wire.DecodeAnswer(text); err == nil && silent[a.Client] {
				delete(silent, a.Client)
				answers = append(answers, a)
			}
		case <-patience.C:
			return answers
		case <-ctx.Done():
			return answers
		case <-c.Redis.Done():
			return answers
		}
	}
	return answers
}

// confirmed waits until the server has confirmed the subscription.
func (c *Client) confirmed(ctx context.Context, sub *pubsub.Subscription) error {
	within, cancel := c.Redis.Within(ctx)
	defer cancel()
	for !sub.Confirmed() {
		err := sub.Refused()
		if refusal := (*pubsub.Refusal)(nil); errors.As(err, &refusal) {
			_, err = wire.Diagnose(refusal.Reply)
		}
		switch {
		case c.Closed.Load():
			return wire.ErrClosed
		case err != nil:
			return err
		}
		select {
		case <-sub.C():
		case <-c.Redis.Done():
			return wire.ErrClosed
		case <-within.Done():
			if ctx.Err() != nil {
				return wire.Over(ctx)
			}
			return wire.ErrNoAnswer
		}
	}
	return nil
}
