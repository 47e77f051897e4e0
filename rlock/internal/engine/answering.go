package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// answerPause is how long a client waits before it answers again. Clients that have
	// asked meanwhile share the next answer.
	answerPause = 100 * time.Millisecond
	// maxAskers is how many questions one answer is for at most. More are left unanswered.
	maxAskers = 16
)

// answering answers other clients that ask what this one holds and waits for. Anybody may
// ask, so that all that it costs is bounded: how often, how many are answered, and how long
// an answer is. It looks at every lock, one shard after the other, in the background.
type answering struct {
	client *Client
	errand *errand

	mu        sync.Mutex // protects following
	questions []string   // not answered yet
}

func newAnswering(c *Client) *answering {
	a := &answering{client: c}
	a.errand = &errand{redis: c.Redis, pause: answerPause, work: a.answer}
	return a
}

// asked has the question answered, if it can be read. It waits for nothing.
func (a *answering) asked(m wire.ClientMessage) {
	if a.client.Config.NoAnswers || !m.Answerable() {
		return
	}
	a.mu.Lock()
	if len(a.questions) < maxAskers && !slices.Contains(a.questions, m.Owner) {
		a.questions = append(a.questions, m.Owner)
	}
	a.mu.Unlock()
	a.errand.ask()
}

// answer answers all questions at once.
func (a *answering) answer() (more bool) {
	a.mu.Lock()
	questions := a.questions
	a.questions = nil
	a.mu.Unlock()
	if len(questions) == 0 {
		return false
	}
	c := a.client
	text := wire.EncodeAnswer(c.ID.Prefix, time.Now().UnixMilli(), tellable(c.Uses()))
	for _, question := range questions {
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
