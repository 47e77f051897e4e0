package sim

import (
	"time"

	"github.com/go-rlock/rlock/bench/fleet/server"
	"github.com/go-rlock/rlock/internal/core"
)

// A shard is one server of Redis: it executes one command after the other.
type shard struct {
	Shard
	locks map[uint32]*server.Lock // of the names that have a key
	keys  map[uint32]key          // of the names that are polled for
	until core.Time               // it is busy
	epoch uint32                  // of its connections
	stops core.Time               // it fails; Never for not
	down  bool
	old   map[uint32]*server.Lock // the state of its replica
	aged  map[uint32]key
}

// A key is that of a client that polls.
type key struct {
	holder uint64
	ends   core.Time
}

// A packet is a command, and its answer on the way back.
type packet struct {
	client *client
	lock   *lock   // nil: a command of a caller that polls
	caller *caller // of that
	by     *caller // whose call has sent it; nil: the keeper
	cmd    core.Command
	reply  core.Reply
	poll   pollOp
	name   uint32
	epoch  uint32
}

// News are a message on its way.
type news struct {
	client *client
	name   uint32
	core.Message
}

// home returns the shard of a name.
func (s *Sim) home(name uint32) uint32 { return name % uint32(len(s.shards)) }

// send sends a packet.
func (s *Sim) send(p *packet) {
	at := s.home(p.name)
	p.epoch = s.shards[at].epoch
	s.plan(s.crosses(p.client, at, asks, s.now), arrives, 0, p)
}

// starts returns when the shard has time for a command, and whether it executes it at all.
func (h *shard) starts(now core.Time) (core.Time, bool) {
	at := max(now, h.until)
	return at, at < h.stops
}

// spends keeps the shard busy for a command from at on, and returns the end of the command.
func (s *Sim) spends(h *shard, at core.Time, cost time.Duration) core.Time {
	h.until = at.After(core.Span(cost))
	if from, to := max(at, s.warm), min(h.until, s.end); from < to {
		h.Commands++
		h.Busy += time.Duration(to - from)
		h.Backlog = max(h.Backlog, time.Duration(at-s.now))
	}
	return h.until
}

// arrive has a command executed.
func (s *Sim) arrive(p *packet) {
	n := s.home(p.name)
	h := &s.shards[n]
	at, up := h.starts(s.now)
	switch {
	case p.epoch != h.epoch:
		p.reply = core.Reply{Fault: core.Unknown} // its connection has ended
	case h.down:
		p.reply = core.Reply{Fault: core.NotRun}
	case !up:
		p.reply = core.Reply{Fault: core.Unknown}
		at = h.stops
	case p.lock == nil:
		at = s.spends(h, at, s.polled(h, p, at))
	default:
		l := h.locks[p.name]
		if l == nil {
			l = &server.Lock{}
			h.locks[p.name] = l
		}
		s.listensTo = p.name
		p.reply = l.Do(&s.server, &p.cmd, server.Time(at), &s.effects)
		p.reply.Settled = true // on one connection, which keeps the order
		told := 0
		for i := range s.effects.Messages {
			if s.effects.Messages[i].Kind != core.ForeignNews { // no foreign client listens
				told++
			}
		}
		cost := s.Costs.Of(&p.cmd, &p.reply, told)
		at = s.spends(h, at, cost)
		for _, m := range s.effects.Messages {
			if m.Kind != core.ForeignNews {
				s.publish(n, p.name, m.Message, at)
			}
		}
		s.effects.Messages, s.effects.Granted = s.effects.Messages[:0], s.effects.Granted[:0]
		if l.Empty(server.Time(at)) {
			delete(h.locks, p.name)
		}
	}
	s.plan(s.crosses(p.client, n, answers, at), answered, 0, p)
}

// publish sends a message to its client.
func (s *Sim) publish(shard, name uint32, m core.Message, at core.Time) {
	c := &s.clients[m.ID.Client]
	n := take(&s.spare.news)
	*n = news{client: c, name: name, Message: m}
	if s.now >= s.warm {
		s.result.Messages++
	}
	s.plan(s.crosses(c, shard, tells, at), heard, 0, n)
}
