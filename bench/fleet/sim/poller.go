package sim

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

// A pollOp is a command of a caller that polls.
type pollOp uint8

const (
	tries pollOp = iota // SET key value NX PX lease
	dels                // the script that deletes a key with its value
)

// try sends a SET.
func (s *Sim) try(w *caller) { s.polls(w, tries) }

// gives sends the release.
func (s *Sim) gives(w *caller) {
	s.counts(w)
	s.ends(w)
	w.state = unlocks
	s.polls(w, dels)
}

func (s *Sim) polls(w *caller, op pollOp) {
	p := take(&s.spare.packets)
	*p = packet{client: w.client, caller: w, poll: op, name: w.name}
	s.send(p)
}

// polled executes the command, and returns its cost.
func (s *Sim) polled(h *shard, p *packet, at core.Time) time.Duration {
	k, me := h.keys[p.name], p.caller.token
	taken := k.holder != 0 && at < k.ends
	switch {
	case p.poll == dels:
		if p.reply.Left = taken && k.holder == me; p.reply.Left {
			delete(h.keys, p.name)
		}
		return s.Costs.Command + s.Costs.Delete
	case taken:
		p.reply.Found = core.Nowhere
		return s.Costs.Command + s.Costs.SetRefused
	}
	h.keys[p.name] = key{me, at.After(core.Span(s.Polling.Lease))}
	p.reply.Found = core.Holds
	return s.Costs.Command + s.Costs.Set
}

// polledAnswer deals with the answer.
func (s *Sim) polledAnswer(p *packet) {
	w := p.caller
	switch {
	case p.poll == dels:
		s.pause(w) // also without an answer: the lease ends it
	case p.reply.Fault == core.Answered && p.reply.Found == core.Holds:
		s.holds(w)
	default:
		d := s.Polling.Least
		if more := s.Polling.Most - d; more > 0 {
			d += time.Duration(s.rng.Int64N(int64(more)))
		}
		s.at(w, s.now.After(core.Span(d)))
	}
	s.spare.packets = append(s.spare.packets, p)
}
