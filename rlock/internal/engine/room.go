package engine

import (
	"sync"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
)

// shardCount is how many shards a client has for each kind of lock.
const shardCount = 64

// A shard is a part of a client's rooms of one kind under one mutex.
type shard struct {
	mu    sync.Mutex // protects following, and every room in it
	rooms map[string]*room

	// spareRoom and spareTenure are there to be used again, since a lock that is
	// taken and freed all day would otherwise touch new memory each time. Nobody
	// points to them.
	spareRoom   *room
	spareTenure *tenure

	// lost is what ended in loss under this lock of the mutex, to be announced by
	// exit once it is given back.
	lost []ending

	// leaving has the tenures that the keeper releases, and those that were granted out of the
	// queue and whose release is in flight, by the UUID and the colon of their texts. Until
	// the answer Redis may show one as the holder, and the message of its grant may come.
	leaving map[string]*tenure

	lingering waitqueue.Queue[*tenure] // those that linger, the longest first
	backoffs  map[string]backoff       // the rooms that do not linger for a while, by key

	counts Counts // see Stats
}

// A room is the state of one lock in this client: its holders and its waiters here. It
// exists while there are some, a command about it is in flight or a tenure lingers, and leaves
// nothing behind. The package comment says how it goes on.
type room struct {
	client *Client
	shard  *shard
	name   *Name

	// The shard's mutex protects following.

	// tenure is this client's hold on the key, nil if it has none.
	tenure *tenure
	// queue has the waiters of this client. Only its head acquires or joins Redis'
	// queue, while there is no tenure or with the release of it; of a strict lock each
	// waiter joins.
	queue waitqueue.Queue[*waiter]
	// crowd counts by owner the waiters that joined the queue behind others. So at most
	// one waiter is not counted, and that is the head. Owners that are goroutines are not
	// counted either: they wait in one place.
	crowd map[Owner]int
	// sub is the subscription to the channel on which this client is told of grants, from
	// the first time that another client was found here until the room is left, and
	// subscribed when it was asked for.
	sub        *pubsub.Subscription
	subscribed time.Time
	// ears are the subscriptions to what foreign clients are told, see foreign.go.
	ears []*pubsub.Subscription
	// foreign is what they have told of foreign clients, see foreign.go.
	foreign foreignNews
	// heard is set once one was heard to release the lock, until a look has told Redis.
	heard bool
	// inFlight is how many acquires and releases are in flight: the answer decides
	// whose the lock is, and nobody asks before it came.
	inFlight int32
	// escaped is set once something may outlive the callers here and points to
	// the room or its tenure: a handle, the keeper, a loss to be announced.
	// Neither is used again then.
	escaped bool
	// since is when the last of inFlight was sent.
	since time.Time
	// tokens is how many fencing tokens the next tenure reserves, if more than one.
	tokens uint64
}

// enter returns the room of n with its mutex held, and makes it if need be. The
// caller leaves with exit.
func (c *Client) enter(n *Name) *room {
	s := n.shard
	s.mu.Lock()
	r := s.rooms[n.room]
	if r == nil {
		if r = s.spareRoom; r == nil {
			r = new(room)
		}
		s.spareRoom = nil
		*r = room{client: c, shard: s, name: n}
		s.rooms[n.room] = r
	}
	return r
}

// enterIfAny is enter where there is nothing to do without a room: it returns
// nil, and holds no mutex, if there is none.
func (c *Client) enterIfAny(n *Name) *room {
	s := n.shard
	s.mu.Lock()
	r := s.rooms[n.room]
	if r == nil {
		s.mu.Unlock()
	}
	return r
}

// exit gives the mutex back. The last to leave a room that nobody needs takes it
// down, so that the room must not be looked at after exit; losses are announced.
func (r *room) exit() {
	s := r.shard
	lost := s.lost
	s.lost = nil
	if r.tenure == nil && r.queue.Len() == 0 && r.inFlight == 0 && s.rooms[r.name.room] == r {
		delete(s.rooms, r.name.room)
		r.unsubscribe()
		if !r.escaped {
			s.spareRoom = r
		}
	}
	s.mu.Unlock()
	for _, e := range lost {
		e.announce()
	}
}

// leavingAs returns the leaving tenure of an owner in Redis, "<uuid>:<id>", nil if there is
// none.
func (s *shard) leavingAs(owner string) *tenure {
	if len(owner) < wire.TenureLen {
		return nil
	}
	return s.leaving[owner[:wire.TenureLen]]
}

// hurry has the keeper release at once the leaving tenure of a ticket that was granted the lock,
// if that is its to do, and reports whether there is one. It may be a ghost, which is looked
// for less and less often.
func (s *shard) hurry(ticket string) bool {
	t := s.leavingAs(ticket)
	if t != nil && t.phase == releasing {
		t.room.client.keeper.Nudge(t)
	}
	return t != nil
}

// current returns the tenure, nil if there is none that is still valid: one
// whose lease may have ended is lost at the moment when somebody looks.
func (r *room) current(now time.Time) *tenure {
	if r.tenure != nil {
		r.tenure.settle(now)
	}
	return r.tenure
}

// grant gives the tenure to w, the waiter that asked for it or the next in line:
// the hold begins now.
func (r *room) grant(t *tenure, w *waiter, way Way, now time.Time) {
	r.deafen()
	if was := r.tenure; was != nil && was != t {
		if was.shared && t.shared && was.valid(now) {
			r.beginTurn(t, w, now)
			return
		}
		was.lose(errGone)
		was.end()
	}
	r.serve(w, way, now)
	r.tenure = t
	t.begin(now, w.Request)
	r.admitOwner(w.Owner, now)
	if t.shared {
		r.admit(now, true)
	}
	w.Wake() // last, since it needs the mutex
}

// admitBeside gives w a level of its own beside those that the tenure has.
func (r *room) admitBeside(w *waiter, way Way, now time.Time) {
	r.serve(w, way, now)
	r.tenure.nest(now, w.Request)
	w.Wake()
}

// serve notes that w has the lock: it stands in the queue no longer, and its ticket is given
// up.
func (r *room) serve(w *waiter, way Way, now time.Time) {
	r.leaveQueue(w)
	r.giveBack(w.ticket, now)
	w.ticket = nil
	w.granted, w.Way = true, way
	w.waited = max(now.Sub(w.began), 0)
	r.shard.counts.Waited += w.waited
}

// admitOwner admits the other waiters of o, which has just been granted the lock: an
// owner does not wait for itself.
func (r *room) admitOwner(o Owner, now time.Time) {
	if head := r.head(); r.crowd[o] == 0 && (head == nil || head.Owner != o) {
		return
	}
	for w := range r.waiters {
		switch {
		case w.Owner != o:
		case r.tenure.shared && !w.Shared:
			w.err, w.fatal = errUpgrade(o), true
			w.Wake()
		default:
			r.admitBeside(w, ByNesting, now)
		}
	}
}

// head returns the first waiter, nil if there is none.
func (r *room) head() *waiter {
	if first := r.queue.Head(); first != nil {
		return first.Value
	}
	return nil
}

// waiters calls yield with each waiter in order. That one may leave meanwhile.
func (r *room) waiters(yield func(*waiter) bool) {
	for place := range r.queue.All {
		if !yield(place.Value) {
			return
		}
	}
}

// joinQueue puts w at the end of the queue, which it leaves by leaveQueue.
func (r *room) joinQueue(w *waiter) {
	if r.queue.Len() > 0 && w.Owner.Goroutine() == 0 {
		if r.crowd == nil {
			r.crowd = make(map[Owner]int)
		}
		r.crowd[w.Owner]++
		w.counted = true
	}
	r.queue.Join(w.Waiter)
}

func (r *room) leaveQueue(w *waiter) {
	if r.queue.Leave(w.Waiter) && w.counted {
		w.counted = false
		if r.crowd[w.Owner]--; r.crowd[w.Owner] == 0 {
			delete(r.crowd, w.Owner)
		}
	}
}

// wakeHead has the head of the queue look what it can do, since the lock may be free.
func (r *room) wakeHead() {
	if w := r.head(); w != nil {
		w.Wake()
	}
}

// close begins the release of all tenures. The end of the client's context wakes the
// waiters, which leave by themselves.
func (s *shard) close() {
	s.mu.Lock()
	var ended []ending
	for _, r := range s.rooms {
		if r.tenure != nil {
			ended = append(ended, r.tenure.abandon())
		}
	}
	s.mu.Unlock()
	for _, e := range ended {
		e.announce()
	}
}
