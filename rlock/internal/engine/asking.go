package engine

import (
	"cmp"
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
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
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
		within, cancel := c.Redis.Within(ctx)
		listeners, err := c.Redis.Tell(within, id, question)
		cancel()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, wire.Over(ctx)
		case err != nil:
			return nil, wire.Explain(err)
		}
		if listeners != 0 {
			silent[id] = true
		}
	}
	return c.answersOf(ctx, silent, heard), nil
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
			err = wire.Explain(refusal.Reply)
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

const (
	// answerPause is how long a client waits before it answers again. Clients that have
	// asked meanwhile share the next answer.
	answerPause = 100 * time.Millisecond
	// maxAskers is how many questions one answer is for at most. More are left unanswered.
	maxAskers = 16
)

// Other clients ask what this one holds and waits for. Anybody may ask, so that all that it costs
// is bounded: how often, how many are answered, and how long an answer is. It looks at every
// lock, one shard after the other, in the background.

// asked has the question answered, if it can be read. It waits for nothing.
func (c *Client) asked(m wire.ClientMessage) {
	if c.Config.NoAnswers || !m.Answerable() {
		return
	}
	select {
	case c.questions <- m.Owner:
	default:
	}
	c.answers.ask()
}

// answer answers all questions at once.
func (c *Client) answer() (more bool) {
	if len(c.questions) == 0 {
		return false
	}
	text := wire.EncodeAnswer(c.ID.Prefix, time.Now().UnixMilli(), tellable(c.Uses(true)))
	for range len(c.questions) {
		question := <-c.questions
		_, _ = c.Redis.Tell(c.Redis.Deadline(time.Now()), question[:wire.ClientLen], wire.ClientMessage{Verb: wire.Answers, Owner: question, Text: text})
	}
	return false
}

// tellable returns the uses as they are told, those first that others may wait for in vain,
// since the answer may have no room for all: waits, then what is held by an owner or a
// goroutine that waits, then the rest.
func tellable(uses []Use) []wire.ClientUse {
	waiting := make(map[uint64]bool)
	for _, u := range uses {
		if u.Waits {
			waiting[u.Owner.ID] = true
			waiting[u.Goroutine] = u.Goroutine != 0
		}
	}
	rank := func(u Use) int {
		switch {
		case u.Waits:
			return 0
		case waiting[u.Owner.ID] || waiting[u.Goroutine]:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(uses, func(a, b Use) int { return cmp.Compare(rank(a), rank(b)) })
	told := make([]wire.ClientUse, len(uses))
	for i, u := range uses {
		told[i] = wire.ClientUse{
			Lock: u.Name, Kind: string(u.Kind), Owner: u.Owner.ID, Goroutine: u.Goroutine, Waits: u.Waits,
			Since: u.Since.UnixMilli(), PartOf: u.PartOf,
		}
		if u.Place != (Place{}) {
			told[i].Place = (*wire.UsePlace)(&u.Place)
		}
	}
	return told
}
