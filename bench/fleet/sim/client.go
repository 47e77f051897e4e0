package sim

import (
	"github.com/go-rlock/rlock/internal/core"
)

// A client is one process.
type client struct {
	id       uint32
	core     *core.Client // nil while it has no lock
	locks    int
	links    []link
	stalled  core.Time // nothing happens in it until then
	sections int
}

// A lock is the state of one name in a client.
type lock struct {
	core.Lock
	client  *client
	name    uint32
	flying  int // commands without an answer
	callers int // that have not returned from Lock or Unlock, or hold it
}

// A pair is a client and a name.
type pair struct{ client, name uint32 }

// A sub is the subscription of a client to its channel of a name.
type sub struct {
	pair
	heard   bool      // the client knows that it is subscribed
	listens bool      // Redis knows
	asked   bool      // a SUBSCRIBE is on its way
	needed  bool      // the lock needs it
	epoch   uint32    // of the connection over which it was asked for
	ends    core.Time // else: until when it lingers
}

// subLingers is how long a subscription lasts that was needed.
const subLingers = core.Span(5e9)

func (s *Sim) clock() core.Now { return core.Now{Time: s.now, Safe: core.SafeTime(s.now)} }

// lockOf returns the client's lock of a name.
func (s *Sim) lockOf(c *client, name uint32) *lock {
	l := s.locks[pair{c.id, name}]
	if l != nil {
		return l
	}
	if c.core == nil {
		c.core = take(&s.spare.clients)
		c.core.Config, c.core.ID, c.core.Tenure = s.core, c.id, s.number
	}
	l = take(&s.spare.locks)
	l.Reset(c.core, core.Kind{Strict: s.Strict})
	l.client, l.name, l.Tag = c, name, l
	c.locks++
	s.locks[pair{c.id, name}] = l
	return l
}

// tidy forgets a lock of which nothing is left.
func (s *Sim) tidy(l *lock) {
	c := l.client
	if c == nil || l.flying > 0 || l.callers > 0 || !l.Idle() {
		return
	}
	delete(s.locks, pair{c.id, l.name})
	l.client = nil
	s.spare.locks = append(s.spare.locks, l)
	if c.locks--; c.locks == 0 {
		s.spare.clients = append(s.spare.clients, c.core)
		c.core = nil
	}
}

// carryOut executes the core's effects after an event of the lock.
func (s *Sim) carryOut(l *lock) {
	if l.client == nil {
		return
	}
	c := l.client.core
	for {
		effects := c.TakeEffects(s.clock())
		if len(effects) == 0 && len(c.Effects) == 0 {
			break
		}
		s.took = append(s.took[:0], effects...) // they are valid until the next event
		for i := range s.took {
			s.effect(&s.took[i])
		}
		for i := range s.nudges {
			if w := s.nudges[i]; w.caller != nil {
				s.run(w.caller)
			} else {
				s.keep(w.tenure)
			}
		}
		s.nudges = s.nudges[:0]
	}
	s.tidy(l)
}

// A nudge is a poll that an effect asks for.
type nudge struct {
	tenure *core.Tenure
	caller *caller // whose goroutine polls; nil: the keeper
}

func (s *Sim) effect(e *core.Effect) {
	switch e.Kind {
	case core.Poll:
		s.due(e)
	case core.Ended:
		workOf(e.Tenure).gen++
	case core.Wake:
		s.nudges = append(s.nudges, nudge{caller: e.Call.Tag.(*caller)})
	case core.Lose:
		for i := range e.Lost {
			s.loses(e.Lost[i].Info.(*caller))
		}
	case core.Subscribe:
		s.subscribe(e.Lock.Tag.(*lock))
	case core.Unsubscribe:
		l := e.Lock.Tag.(*lock)
		if b := s.subs[pair{l.client.id, l.name}]; b != nil && b.needed {
			b.needed, b.ends = false, s.now.After(subLingers)
			s.plan(b.ends, unused, 0, b)
		}
	}
}

// due tells an agent when to poll its call or its tenure: a caller, or the keeper.
func (s *Sim) due(e *core.Effect) {
	switch now := e.At <= s.now; {
	case e.Call != nil && now:
		s.nudges = append(s.nudges, nudge{caller: e.Call.Tag.(*caller)})
	case e.Call != nil:
		s.at(e.Call.Tag.(*caller), e.At)
	case now:
		s.nudges = append(s.nudges, nudge{tenure: e.Tenure})
	default:
		w := workOf(e.Tenure)
		if w.gen++; e.At < core.Never {
			s.plan(e.At, keeps, w.gen, e.Tenure)
		}
	}
}

// A work is a tenure as the keeper knows it.
type work struct {
	gen uint32 // of its timer
}

func workOf(t *core.Tenure) *work {
	w, _ := t.Tag.(*work)
	if w == nil {
		w = new(work)
		t.Tag = w
	}
	return w
}

// keep has the keeper poll a tenure.
func (s *Sim) keep(t *core.Tenure) {
	if t.Lock() == nil {
		return
	}
	l, _ := t.Lock().Tag.(*lock)
	if l == nil || l.client == nil {
		return
	}
	now := s.clock()
	cmd, at := l.Poll(t, now)
	w := workOf(t)
	w.gen++
	if cmd.Op != core.None {
		s.sends(l, &cmd, nil)
	}
	if at < core.Never {
		s.plan(at, keeps, w.gen, t)
	}
}

// sends sends a command about the lock, of a caller or of the keeper.
func (s *Sim) sends(l *lock, cmd *core.Command, by *caller) {
	p := take(&s.spare.packets)
	*p = packet{client: l.client, lock: l, by: by, cmd: *cmd, name: l.name}
	l.flying++
	s.send(p)
}

// answer deals with what became of a command.
func (s *Sim) answer(p *packet) {
	l := p.lock
	l.flying--
	l.Answer(&p.cmd, p.reply, s.clock())
	if w := p.by; w != nil {
		w.flies = false
		s.run(w)
	}
	s.spare.packets = append(s.spare.packets, p)
	s.carryOut(l)
}

// hear deals with a message.
func (s *Sim) hear(n *news) {
	c := n.client
	l := s.locks[pair{c.id, n.name}]
	if l == nil && n.Kind == core.Granted { // no waiter wants it, and the next in the queue must not wait for that
		l = s.lockOf(c, n.name)
	}
	if l != nil {
		l.Hear(n.Message, s.clock())
		s.carryOut(l)
	}
	s.spare.news = append(s.spare.news, n)
}

// subOf returns the subscription of the lock.
func (s *Sim) subOf(l *lock) *sub {
	p := pair{l.client.id, l.name}
	b := s.subs[p]
	if b == nil {
		b = &sub{pair: p}
		s.subs[p] = b
	}
	return b
}

// subscribe makes sure that the client is told of its tickets.
func (s *Sim) subscribe(l *lock) {
	b := s.subOf(l)
	b.needed = true
	switch {
	case b.heard:
		l.Listening(true, s.clock())
	case !b.asked:
		s.asksFor(l.client, b)
	}
}

func (s *Sim) asksFor(c *client, b *sub) {
	at := s.home(b.name)
	b.asked, b.epoch = true, s.shards[at].epoch
	s.plan(s.crosses(c, at, joins, s.now), subscribes, 0, b)
}

// subscribed is the SUBSCRIBE in its shard.
func (s *Sim) subscribed(b *sub) {
	n := s.home(b.name)
	h := &s.shards[n]
	at, up := h.starts(s.now)
	if b.epoch != h.epoch || h.down || !up {
		return // it is sent again when there is a connection
	}
	at = s.spends(h, at, s.Costs.Subscribe+s.Costs.Command)
	b.listens = true
	s.plan(s.crosses(&s.clients[b.client], n, tells, at), subscribed, b.epoch, b)
}

// confirmed is the answer to it.
func (s *Sim) confirmed(b *sub, epoch uint32) {
	if epoch != b.epoch || !b.listens {
		return
	}
	b.asked, b.heard = false, true
	if l := s.locks[b.pair]; l != nil && b.needed {
		l.Listening(true, s.clock())
		s.carryOut(l)
	}
}

// unused ends a subscription that nothing has needed since it began to linger.
func (s *Sim) unused(b *sub) {
	if !b.needed && s.now >= b.ends && s.subs[b.pair] == b {
		delete(s.subs, b.pair)
	}
}

// listens reports whether Redis has a subscription of the client to the name whose command is executed.
func (s *Sim) listens(c uint32) bool {
	b := s.subs[pair{c, s.listensTo}]
	return b != nil && b.listens
}
