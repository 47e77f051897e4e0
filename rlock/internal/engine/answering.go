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

// questions are those of other clients that ask what this one holds and waits for. Anybody may
// ask, so that all that it costs is bounded: how often, how many are answered, and how long
// an answer is. It looks at every lock, one shard after the other, in the background.
type questions struct {
	mu      sync.Mutex // protects following
	waiting []string   // not answered yet
}

// asked has the question answered, if it can be read. It waits for nothing.
func (c *Client) asked(m wire.ClientMessage) {
	if c.Config.NoAnswers || !m.Answerable() {
		return
	}
	q := &c.questions
	q.mu.Lock()
	if len(q.waiting) < maxAskers && !slices.Contains(q.waiting, m.Owner) {
		q.waiting = append(q.waiting, m.Owner)
	}
	q.mu.Unlock()
	c.answers.ask()
}

// answer answers all questions at once.
func (c *Client) answer() (more bool) {
	q := &c.questions
	q.mu.Lock()
	waiting := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	if len(waiting) == 0 {
		return false
	}
	text := wire.EncodeAnswer(c.ID.Prefix, time.Now().UnixMilli(), tellable(c.Uses()))
	for _, question := range waiting {
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
