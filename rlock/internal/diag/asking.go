package diag

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// answerTime is how long an answer is waited for.
const answerTime = time.Second

// Ask asks the clients with these ids what they hold and wait for, and returns the answers
// that come: see package rlock.
func (d *Diag) Ask(ctx context.Context, ids []string) ([]inspect.Answer, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	question, beginning := wire.Question(d.ID)
	heard := make(chan string, 2*len(ids)) // twice, since any user may publish there
	sub := d.Hub.ListenPlain(wire.ClientChannel(d.ID.Prefix), func(message string) {
		if text, ok := strings.CutPrefix(message, beginning); ok {
			select {
			case heard <- text:
			default:
			}
		}
	})
	defer sub.Close()
	if err := d.confirmed(ctx, sub); err != nil {
		return nil, err
	}
	silent := make(map[string]bool) // that may answer yet
	for _, id := range ids {
		within, cancel := d.Redis.Within(ctx)
		listeners, err := d.Redis.Tell(within, id, question)
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
	return d.answersOf(ctx, silent, heard), nil
}

// answersOf returns the first answer of each of the clients, as they are heard.
func (d *Diag) answersOf(ctx context.Context, silent map[string]bool, heard <-chan string) (answers []inspect.Answer) {
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
		case <-d.Redis.Done():
			return answers
		}
	}
	return answers
}

// confirmed waits until the server has confirmed the subscription.
func (d *Diag) confirmed(ctx context.Context, sub *pubsub.Subscription) error {
	within, cancel := d.Redis.Within(ctx)
	defer cancel()
	for !sub.Confirmed() {
		err := sub.Refused()
		if refusal := (*pubsub.Refusal)(nil); errors.As(err, &refusal) {
			err = wire.Explain(refusal.Reply)
		}
		switch {
		case isClosed(d.Redis):
			return wire.ErrClosed
		case err != nil:
			return err
		}
		select {
		case <-sub.C():
		case <-d.Redis.Done():
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

// Other clients ask what this one holds and waits for. Any user may ask, so that all that it costs
// is bounded: how often, how many are answered, and how long an answer is. It looks at every
// lock, one shard after the other, in the background.

// Asked takes a question of another client, if it can be read. It waits for nothing.
func (d *Diag) Asked(m wire.ClientMessage) {
	if d.NoAnswers || !m.Answerable() {
		return
	}
	select {
	case d.questions <- m.Owner:
	default:
	}
	d.answers.Ask()
}

// answer answers all questions at once. However many there are, and whatever a look costs, it takes no more than a tenth
// of the time.
func (d *Diag) answer() (time.Duration, bool) {
	if len(d.questions) == 0 {
		return answerPause, false
	}
	began := time.Now()
	text := wire.EncodeAnswer(d.ID.Prefix, began, tellable(Uses(d.Source, true)))
	pause := pause(answerPause, began)
	for range len(d.questions) {
		question := <-d.questions
		_, _ = d.Redis.Tell(d.Redis.Deadline(time.Now()), question[:wire.ClientLen], wire.ClientMessage{Verb: wire.Answers, Owner: question, Text: text})
	}
	return pause, false
}

// tellable returns the uses as they are sent, those first that others may wait for in vain,
// since the answer may have no room for all: waits, then holds of an owner or a
// goroutine that waits, then the rest.
func tellable(uses []Use) []inspect.Use {
	waiting := make(map[uint64]bool)
	for _, u := range uses {
		if u.Waits {
			waiting[u.Owner] = true
			waiting[u.Goroutine] = u.Goroutine != 0
		}
	}
	rank := func(u Use) int {
		switch {
		case u.Waits:
			return 0
		case waiting[u.Owner] || waiting[u.Goroutine]:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(uses, func(a, b Use) int { return cmp.Compare(rank(a), rank(b)) })
	told := make([]inspect.Use, len(uses))
	for i, u := range uses {
		told[i] = u.Use
	}
	return told
}

func isClosed(r Redis) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}
