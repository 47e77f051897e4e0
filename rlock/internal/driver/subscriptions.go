package driver

import (
	"sync"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A subscription is a subscription to the channel of a lock.
type subscription interface {
	// state reports whether messages come, and whether the server has refused the channel.
	state() (confirmed, refused bool)
	// listenForeign also subscribes to the channel of foreign clients. hearsForeign reports whether
	// the server has confirmed the subscription to that channel, and ignoreForeign ends this
	// subscription.
	listenForeign(hear func(string))
	hearsForeign() bool
	ignoreForeign()
	close()
}

// subscribeGrants subscribes the client to its grants.
//
// REQUIRES: shard.mu.
func (l *lockState) subscribeGrants() {
	if l.sub != nil {
		return
	}
	l.recallTurn()
	c, n := l.shard.client, l.name
	listen := func() subscription {
		return c.wire.listen(n, func(message string) { c.hearTicketMessage(n, message) }, func() { c.queueConfirmation(n) })
	}
	if l.kind().permits {
		l.sub = l.shard.subscribePool(n, listen)
	} else {
		l.sub = listen()
	}
	if confirmed, _ := l.sub.state(); confirmed { // the rest of an earlier subscription
		l.confirmed = true
		l.Subscribed(true, l.shard.at)
	}
}

// unsubscribeGrants ends the subscription to the grants of the client.
//
// REQUIRES: shard.mu.
func (l *lockState) unsubscribeGrants() {
	if l.sub != nil {
		l.rememberTurn()
		l.sub.close()
		l.sub, l.confirmed = nil, false
	}
}

// A lockKey names a lock of a shard.
type lockKey struct {
	kind KindID
	key  string
}

// maxShortTurns is the number of locks whose short turns a shard remembers.
const maxShortTurns = 16

// rememberTurn remembers whether the last turn of a lock was short, and recallTurn tells package
// core: a lock for which others wait only now and then is forgotten in between. A shard forgets all
// short turns when they are too many.
//
// REQUIRES: shard.mu.
func (l *lockState) rememberTurn() {
	s, k := l.shard, lockKey{l.name.KindID, l.name.Key}
	switch {
	case !l.LastTurnWasShort():
		delete(s.shortTurns, k)
		return
	case s.shortTurns == nil:
		s.shortTurns = make(map[lockKey]struct{})
	case len(s.shortTurns) >= maxShortTurns:
		clear(s.shortTurns)
	}
	s.shortTurns[k] = struct{}{}
}

// recallTurn notes that the last turn was short, if it was when the lock was last forgotten.
//
// REQUIRES: shard.mu.
func (l *lockState) recallTurn() {
	if _, short := l.shard.shortTurns[lockKey{l.name.KindID, l.name.Key}]; short {
		l.NoteShortTurn()
	}
}

// listenForeign subscribes to the channel of foreign clients.
func (l *lockState) listenForeign() {
	if l.sub == nil {
		return
	}
	c, n := l.shard.client, l.name
	l.sub.listenForeign(func(message string) {
		if l, now := c.enterIfAny(n, 0); l != nil {
			// A client of rlock puts a zero before what Redisson would write, which reads both as
			// the same number.
			ours := len(message) > 1 && message[0] == '0'
			l.Hear(core.Message{Kind: core.ForeignNews, Ours: ours}, now)
			l.shard.exit(l)
		}
	})
}

// reuseSubscription lets a call that may wait take a ticket at once if others have waited for the
// lock a moment ago, so that the subscription still exists.
//
// REQUIRES: shard.mu.
func (l *lockState) reuseSubscription(w *waiter, now core.Now) {
	switch {
	case l.sub != nil:
		l.checkSubscription(now)
	case w.Waits && !l.IsHeld() && l.shard.client.wire.isSubscribed(l.name):
		l.subscribeGrants()
	}
}

// checkSubscription tells package core if the connection of a confirmed subscription has ended: no
// message comes until it is confirmed again.
//
// REQUIRES: shard.mu.
func (l *lockState) checkSubscription(now core.Now) {
	if !l.confirmed {
		return
	}
	if l.confirmed, _ = l.sub.state(); !l.confirmed {
		l.Disconnected(now)
	}
}

// hearTicketMessage deals with a message on this client's channel of the lock, which locks of
// different kinds share.
func (c *Client) hearTicketMessage(n *Name, message string) {
	notice, ok := c.Redis.ParseTicketMessage(message)
	if !ok || notice.Lock != n.Key || notice.Ticket.ClientID() != c.ID.Prefix || c.Closed.Load() {
		return
	}
	l, now := c.enterTenure(n.Key, notice.Ticket, notice.ID)
	switch {
	case l != nil:
	case notice.Kind != core.Granted || notice.ID == (core.ID{}):
		return
	default: // no waiter wants the lock, and the next ticket in the queue must not wait for that
		l, now = c.enter(n, core.OwnerID(notice.Ticket.OwnerID()))
	}
	if !c.Closed.Load() {
		if t := l.Find(notice.ID); notice.Kind == core.Satisfied && t != nil && t.Agent != nil {
			t.Agent.Tag.(*waiter).answer = notice.Answer
		}
		l.Hear(notice.Message, now)
		l.adoptText(notice.ID, notice.Ticket)
	}
	l.shard.exit(l)
}

// hearClientMessage deals with a message on the client's own channel, about a tenure of this
// client. It may be untrue, and so is a reason to ask Redis or to release the lock, and no proof of
// a loss.
func (c *Client) hearClientMessage(message string) {
	m, ok := wire.ParseClientMessage(message)
	if !ok || c.Closed.Load() || m.Owner.ClientID() != c.ID.Prefix {
		return
	}
	id := c.Redis.IDOf(m.Owner)
	switch m.Verb {
	case wire.Forced:
		if l, now := c.enterTenure(m.Text, m.Owner, id); l != nil {
			l.Hear(core.Message{Kind: core.Forced, ID: id}, now)
			l.shard.exit(l)
		}
	case wire.TakenOver:
		c.noteTakenFrom(id, m)
	case wire.Shown:
		c.releaseStray(id, m)
	default: // package wire refuses others
		panic("driver: a message " + string(m.Verb))
	}
}

// noteTakenFrom deals with the message that another owner takes a lock over from a tenure of this
// client. The log says who does, once in a hold.
func (c *Client) noteTakenFrom(id core.ID, m wire.ClientMessage) {
	left, ticket, lock, ok := wire.ParseTakeover(m.Text)
	if !ok {
		return
	}
	l, now := c.enterTenure(lock, m.Owner, id)
	if l == nil {
		return
	}
	first := !l.Yields()
	l.Hear(core.Message{Kind: core.TakenOver, ID: id, Left: core.Span(left)}, now)
	first = first && l.Yields()
	l.shard.exit(l)
	if first {
		c.Config.Logger.Info("rlock: lock is taken over", "lock", lock, "by", ticket, "in", left)
	}
}

// kindLetters has the kind for each letter of a message. Kinds that are the same in Redis have one
// letter.
var kindLetters = map[byte]KindID{'p': PlainKind, 'r': ReadWriteKind, 's': SemaphoreKind}

// releaseStray releases a tenure of this client that has a lock in Redis although no lock of this
// client knows it.
func (c *Client) releaseStray(id core.ID, m wire.ClientMessage) {
	kind, ok := kindLetters[m.Text[0]]
	if !ok || id.Client != wire.ThisClient {
		return
	}
	if l, _ := c.enterTenure(m.Text[1:], m.Owner, id); l != nil {
		l.shard.exit(l)
		return
	}
	n := c.NewName(kind, m.Text[1:])
	if n.Err != nil {
		return
	}
	if kinds[kind].permits {
		n.Permits = 1 // the number is not known here
	}
	l, now := c.enter(n, core.OwnerID(m.Owner.OwnerID()))
	if !c.Closed.Load() {
		_, more := m.Owner.CutMore()
		l.Hear(core.Message{Kind: core.Shown, ID: id, More: more}, now)
		l.adoptText(id, m.Owner)
	}
	l.shard.exit(l)
}

// A confirmations tells locks that their subscriptions were confirmed or refused. The hub calls
// queueConfirmation under a mutex of its own, so that a goroutine has to take the news to the lock.
// The goroutine exists while there is news.
type confirmations struct {
	mu      sync.Mutex // guards the fields below
	waiting []*Name
	running bool
}

// queueConfirmation queues the news for the lock with that name. It is called under the mutex of
// the hub, and must return at once.
func (c *Client) queueConfirmation(n *Name) {
	if invariants {
		c.witness.enters("the hub")
		defer c.witness.leaves()
	}
	p := &c.confirmations
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, n)
	if !p.running {
		p.running = c.wire.Start(c.deliverConfirmations)
	}
}

// deliverConfirmations takes the news to the locks until there is none.
func (c *Client) deliverConfirmations() {
	for p := &c.confirmations; ; {
		p.mu.Lock()
		names := p.waiting
		p.waiting = nil
		p.running = len(names) > 0
		p.mu.Unlock()
		if len(names) == 0 {
			return
		}
		for _, n := range names {
			c.tellSubscribed(n)
		}
	}
}

// tellSubscribed gives the locks with that name the state of their subscription.
func (c *Client) tellSubscribed(n *Name) {
	s := c.shardOf(n)
	s.enterEach(s.named(n.Key), func(l *lockState, now core.Now) {
		if l.sub == nil {
			return
		}
		confirmed, refused := l.sub.state()
		if confirmed || refused {
			l.confirmed = confirmed
			l.Subscribed(confirmed, now)
		}
		if l.sub.hearsForeign() {
			l.ListeningForeign(now)
		}
	})
}

// listen implements carrier.
func (r *redis) listen(n *Name, hear func(string), confirmed func()) subscription {
	return &redisSubscription{r, n, r.hub.ListenConfirmed(n.GrantChannel(), hear, confirmed), nil}
}

// A redisSubscription is the subscription of a lock.
type redisSubscription struct {
	redis  *redis
	name   *Name
	grants *pubsub.Subscription
	others []*pubsub.Subscription // the subscriptions to the channel of foreign clients
}

func (s *redisSubscription) state() (confirmed, refused bool) {
	return s.grants.Confirmed(), s.grants.Refused() != nil
}

// listenForeign subscribes to the channel of foreign clients, and to a second one that counts the
// clients of rlock there: so Redis can tell how many foreign clients listen.
func (s *redisSubscription) listenForeign(hear func(string)) {
	if len(s.others) > 0 {
		return
	}
	if s.redis.CountsSubscribers() {
		s.others = append(s.others, s.grants.Also(s.name.Ushers(), hear))
	}
	if s.name.FairQueue() != "" {
		s.others = append(s.others, s.grants.Also(s.name.Channel()+":"+fairPlace, hear))
	}
	s.others = append(s.others, s.grants.Also(s.name.Channel(), hear))
}

// fairPlace is the owner of rlock's place in Redisson's fair queue: foreign.lua has the same.
const fairPlace = "rlock:0"

func (s *redisSubscription) ignoreForeign() {
	for _, other := range s.others {
		other.Close()
	}
	s.others = nil
}

func (s *redisSubscription) hearsForeign() bool {
	return len(s.others) > 0 && s.others[len(s.others)-1].Confirmed()
}

func (s *redisSubscription) close() {
	s.ignoreForeign()
	s.grants.Close()
}
