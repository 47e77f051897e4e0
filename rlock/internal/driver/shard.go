package driver

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A shard is a part of a client's locks under one mutex: those of some keys, of all kinds.
type shard struct {
	client *Client

	mu    sync.Mutex // protects following, and every lock in it
	core  core.Client
	locks [KindCount]map[string]*lock // by key, of each kind
	pools map[string]*pool            // by key, in place of locks where each owner has one
	spare *lock                       // to be used again: a lock that is taken and freed all day would touch new memory each time

	counts      Counts                  // see Counts
	mirrorWaits map[*lock]chan struct{} // of the locks in which a call waits for the answer to a mirror: see awaitMirror
	audiences   map[*lock]*audience     // of the locks in which a call waits that is told where it stands: see audience

	at         core.Now            // when the mutex was taken
	losses     uint64              // how many there were
	unreported map[*lock][]*ending // those of them that are not reported yet
	after      after               // what exit does once it has given the mutex back
	fault      error               // the error of the command that has just landed, for the calls that have waited for it; nil for none
}

// A lock is one lock of the client. It exists while there is a holder, a waiter, a tenure or a loss that is
// still to be reported, and leaves nothing behind.
type lock struct {
	core.Lock
	shard *shard // never changed
	name  *Name
	owner core.OwnerID // of a permit, else 0

	sub   subscription // to the channel on which this client is told of its tickets; nil for none
	heard bool         // that was confirmed when it was last looked at
}

// shardOf returns where the lock of the name is.
func (c *Client) shardOf(n *Name) *shard { return &c.shards[n.Hash%shardCount] }

// kind returns the kind of the lock.
func (l *lock) kind() *kind { return kinds[l.name.KindID] }

// enter returns the lock of n, or that of the owner's permit, with the mutex held, and makes it if need be. The
// caller leaves with exit. The clocks are read after the mutex is taken.
func (c *Client) enter(n *Name, o core.OwnerID) (*lock, core.Now) {
	s := c.shardOf(n)
	now := s.take()
	l := s.find(n.KindID, n.Key, o)
	if l == nil {
		l = s.add(n, o)
	}
	return l, now
}

// find returns the lock of that kind and key, or that of the owner's permit, nil if there is none.
func (s *shard) find(id KindID, key string, o core.OwnerID) *lock {
	if kinds[id].permits {
		return s.permit(key, o)
	}
	return s.locks[id][key]
}

// has reports whether the lock is one of the shard yet.
func (s *shard) has(l *lock) bool { return s.find(l.name.KindID, l.name.Key, l.owner) == l }

func (s *shard) add(n *Name, o core.OwnerID) *lock {
	l := s.spare
	if l == nil {
		l = &lock{shard: s}
		l.Tag = l
	}
	s.spare = nil
	k := kinds[n.KindID].core
	k.Permits = int32(n.Permits)
	l.Reset(&s.core, k)
	l.name, l.owner = n, 0
	if l.kind().permits {
		l.owner = o
		s.addPermit(l)
	} else {
		s.locks[n.KindID][n.Key] = l
	}
	return l
}

// named calls yield with the locks of the key, of all kinds, and those of its permits.
func (s *shard) named(key string) iter.Seq[*lock] {
	return func(yield func(*lock) bool) {
		for id := range s.locks {
			if l := s.locks[id][key]; l != nil && !yield(l) {
				return
			}
		}
		s.eachPermit(key, yield)
	}
}

// all calls yield with each lock.
func (s *shard) all(yield func(*lock) bool) {
	for id := range s.locks {
		for _, l := range s.locks[id] {
			if !yield(l) {
				return
			}
		}
	}
	for key := range s.pools {
		if !s.eachPermit(key, yield) {
			return
		}
	}
}

// visit calls visit with each of these locks of the shard, entered.
func (s *shard) visit(locks iter.Seq[*lock], visit func(l *lock, now core.Now)) {
	var all []*lock
	s.glance(func() { all = slices.Collect(locks) })
	for _, l := range all {
		now := s.take()
		if s.has(l) {
			visit(l, now)
		}
		s.exit(l)
	}
}

// enterIfAny is enter where there is nothing to do without a lock: it returns nil, and holds no mutex, if
// there is none.
func (c *Client) enterIfAny(n *Name, o core.OwnerID) (*lock, core.Now) {
	s := c.shardOf(n)
	now := s.take()
	l := s.find(n.KindID, n.Key, o)
	if l == nil {
		s.unlock()
	}
	return l, now
}

// take takes the mutex, and reads the clocks then: a goroutine that is delayed between the two would believe
// a lease that has ended.
func (s *shard) take() core.Now {
	if invariants {
		s.client.witness.entersShard()
	}
	s.mu.Lock()
	s.at = s.client.clock.at(time.Now())
	return s.at
}

// lock and unlock are take and exit without clocks and effects. take and exit inline them: a call costs 2 %.
func (s *shard) lock() {
	if invariants {
		s.client.witness.entersShard()
	}
	s.mu.Lock()
}

func (s *shard) unlock() {
	if invariants {
		s.leaves()
	}
	s.mu.Unlock()
}

// exit gives the mutex back, after the effects are carried out that need it. Those that must not be carried
// out under a mutex follow. A lock that is not needed any more is gone then, so that it must not be looked at
// after exit. Together with the two ways to give back a mutex under which nothing has changed (enterIfAny,
// glance) it is the only place that does so.
func (s *shard) exit(l *lock) {
	s.applyAll()
	s.fault = nil
	if l.Idle() && len(s.unreported[l]) == 0 && s.has(l) {
		if l.sub != nil {
			l.unsubscribe()
		}
		s.endMirrorWait(l) // none comes any more
		if l.kind().permits {
			s.removePermit(l)
		} else {
			delete(s.locks[l.name.KindID], l.name.Key)
		}
		s.spare = l
	}
	if invariants {
		s.check()
		s.leaves()
	}
	if a := &s.after; a.granted == nil && a.endings == nil && a.leaving == nil {
		s.mu.Unlock()
		return
	}
	todo := s.after
	s.after = after{}
	s.mu.Unlock()
	s.client.finish(&todo)
}

// glance calls look with the mutex held, which changes nothing.
func (s *shard) glance(look func()) {
	s.lock()
	defer s.unlock()
	look()
}

// enterTenure enters the lock of the key that has the tenure of that ID, which Redis knows by the text. It returns nil, and
// holds no mutex, if there is none. The locks of all kinds are under one mutex.
func (c *Client) enterTenure(key, text string, id core.ID) (*lock, core.Now) {
	s, owner := c.shardOfKey(key), ownerIn(text)
	now := s.take()
	for kind := range s.locks {
		if l := s.find(KindID(kind), key, owner); l != nil && l.Find(id) != nil {
			return l, now
		}
	}
	s.unlock()
	return nil, now
}

// allShards calls yield with every shard.
func (c *Client) allShards(yield func(*shard) bool) {
	for i := range c.shards {
		if !yield(&c.shards[i]) {
			return
		}
	}
}

// shardOfKey returns the shard of the locks of all kinds that have the key.
func (c *Client) shardOfKey(key string) *shard { return &c.shards[c.hashOf(key)%shardCount] }

// after is what exit does once it has given the mutex back, in this order.
type after struct {
	endings []*ending // holds that ended by loss or by Close: their contexts end, and they are told
	leaving []*until  // of calls that wait for an answer, and have an outcome now
	granted *waiter   // a call that has the lock now, and need not contend for the mutex
	others  []*waiter // more of these
}

// finish does the rest of the work after the mutex was given back.
func (c *Client) finish(a *after) {
	if invariants {
		c.witness.outside("the effects of an event")
	}
	for _, e := range a.endings {
		e.tell()
	}
	for _, u := range a.leaving {
		u.end()
	}
	if a.granted != nil {
		a.granted.served()
	}
	for _, w := range a.others {
		w.served()
	}
}

// applyAll applies the effects of package core until there are none. The mutex is held.
func (s *shard) applyAll() {
	for len(s.core.Effects) > 0 {
		effects := s.core.TakeEffects(s.at)
		for i := range effects { // which may bring about more
			s.apply(&effects[i])
		}
		clear(effects)
	}
}

func (s *shard) apply(e *core.Effect) {
	l := e.Lock.Tag.(*lock)
	switch e.Kind {
	case core.Wake:
		s.woken(l, e.Call.Tag.(*waiter))
	case core.Poll:
		if e.Tenure != nil {
			k := s.workOf(l, e.Tenure)
			if e.Call == nil {
				s.keep(k, e.At)
				return
			}
		}
		e.Call.Tag.(*waiter).wake()
	case core.Ended:
		if k, _ := e.Tenure.Tag.(*work); k != nil && k.tenure != nil {
			s.over(k)
		}
	case core.Lose:
		s.lost(l, e.Tenure, e.Lost, e.Cause)
	case core.Subscribe:
		l.subscribe()
	case core.Unsubscribe:
		l.unsubscribe()
	case core.ListenAbroad:
		l.listenAbroad()
	case core.IgnoreAbroad:
		if l.sub != nil {
			l.sub.home()
		}
	default:
		panic("driver: an effect " + e.Kind.String())
	}
}

// woken wakes a call that has an outcome now.
func (s *shard) woken(l *lock, w *waiter) {
	if w.waits {
		s.counts.Waiting--
	}
	if len(s.audiences) > 0 {
		l.leavesLine(w)
	}
	if w.Outcome == core.Unanswered && s.fault != nil {
		w.err = s.fault
	}
	granted := w.Outcome == core.Acquired
	if granted {
		w.earlier = l.granted(&w.Call, &w.req, w.hold)
		w.waited = time.Duration(s.at.Time.Since(w.Began))
		s.counts.Waited += w.waited
		if w.telling {
			s.grantedWhileTold(l.name, w)
		}
	}
	switch {
	case w.stage == flying && w.until == nil: // it does not leave
	case w.stage == flying:
		s.after.leaving = append(s.after.leaving, w.until)
		w.until = nil // no other command may have it
	case w.stage == running: // it looks for itself
	case !granted:
		w.wake()
	case s.after.granted == nil:
		w.stage, s.after.granted = serving, w
	default:
		w.stage, s.after.others = serving, append(s.after.others, w)
	}
}

// granted notes that a call has the lock now. It returns the losses that came before.
func (l *lock) granted(w *core.Call, req *Request, h *hold) earlierLosses {
	s := l.shard
	req.Way = ways[w.Way]
	s.counts.Opened(req.Way)
	s.client.holdBegins()
	if h != nil {
		h.begins(w.Token, s.at)
	}
	switch w.Way {
	case core.ByRedis, core.ByQueue, core.ByPass:
		if c := s.client; !c.Config.NoClientChannel { // which is subscribed with the first tenure, and until the hub ends
			c.hearing.Do(func() { c.Hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), c.heard) })
		}
	case core.ByNesting, core.ByHandoff, core.ByJoining: // in a tenure that is known
	default:
		panic("driver: a lock is acquired " + w.Way.String())
	}
	return earlierLosses{slices.Clone(s.unreported[l]), s.losses}
}

var ways = [...]terms.Way{
	core.ByRedis:   terms.ByRedis,
	core.ByQueue:   terms.ByQueue,
	core.ByNesting: terms.ByNesting,
	core.ByHandoff: terms.ByHandoff,
	core.ByJoining: terms.ByJoining,
	core.ByPass:    terms.ByPass,
}

// A clock reads the two clocks of package core: the monotonic one, and one that advances by the larger of
// what the monotonic and the wall clock advance. A monotonic clock stands still while the machine sleeps
// (golang/go#24595), and Redis does not.
type clock struct {
	start time.Time
	wall  int64 // what the wall clock has shown then, in nanoseconds

	// skew is by how much the wall clock was ahead of the monotonic one when that was last noted, and ahead
	// is the sum of all steps ahead that were noted: in nanoseconds.
	skew, ahead atomic.Int64
	mu          sync.Mutex // held to change both
}

// stepNoise is the largest step of the wall clock that is not noted: it is adjusted all the time, and the
// two clocks are not read at the same moment. The margin of a lease covers it.
const stepNoise = time.Millisecond / 2

// now reads the clocks. It is called with the mutex of a shard held: a goroutine that is delayed between
// the clock and the mutex would believe a lease that has ended.
func (c *clock) now() core.Now { return c.at(time.Now()) }

func (c *clock) at(t time.Time) core.Now {
	monotonic := int64(t.Sub(c.start))
	skew := t.UnixNano() - c.wall - monotonic
	if step := skew - c.skew.Load(); step > int64(stepNoise) || step < -int64(stepNoise) {
		c.note(skew)
	}
	return core.Now{Time: core.Time(monotonic), Safe: core.SafeTime(monotonic + c.ahead.Load())}
}

// note notes a step of the wall clock. A step back is no reason to believe a lease for longer.
func (c *clock) note(skew int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := skew - c.skew.Load()
	if step > 0 {
		c.ahead.Add(step)
	}
	c.skew.Store(skew)
}

// time returns what the monotonic clock shows as a time.
func (c *clock) time(t core.Time) time.Time { return c.start.Add(time.Duration(t)) }

// safe returns when the monotonic clock will show at least that much, as a time.
func (c *clock) safe(t core.SafeTime) time.Time {
	return c.start.Add(time.Duration(int64(t) - c.ahead.Load()))
}
