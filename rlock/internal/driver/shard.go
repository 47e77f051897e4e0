package driver

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A shard has the locks of a client whose keys have certain hashes, under one mutex.
type shard struct {
	client *Client

	mu    sync.Mutex // guards the fields below, and the locks of the shard
	core  core.Client
	locks [kindCount]map[string]*lockState // the locks by kind and key
	pools map[string]*pool                 // the pools of semaphores by key, in place of locks
	spare *lockState                       // a lock whose memory is reused, since one that is taken all day would touch new memory each time

	shortTurns  map[lockKey]struct{} // locks without a subscription whose last turn was short
	counts      Counts
	mirrorWaits map[*lockState]chan struct{} // closed with the next answer to a Mirror of the lock: see awaitLease
	wishes      map[*lockState][]wish        // the wishes of holds; unused if the lock is not curious any more
	audiences   map[*lockState]*audience     // the audiences of locks whose waiters are told their places

	at         core.Now                 // the time at which the mutex was last taken
	losses     uint64                   // the number of losses so far
	unreported map[*lockState][]*ending // the losses that are not reported yet
	deferred   deferred                 // what exit does once it has given the mutex back
	fault      error                    // the error of the command that has just landed, for calls that waited for it; or nil
}

// A lockState is one lock of the client. It exists while it has a holder, a waiter, a tenure or a
// loss that is not reported yet.
type lockState struct {
	core.Lock
	shard *shard // never changed
	name  *Name
	owner core.OwnerID // the owner of the permits; 0 for other locks

	sub       subscription // the subscription to the client's channel of the lock, or nil
	confirmed bool         // the subscription was confirmed when it was last checked
}

// shardOf returns the shard of the lock with the name.
func (c *Client) shardOf(n *Name) *shard { return &c.shards[n.Hash%shardCount] }

// kind returns the kind of the lock.
func (l *lockState) kind() *kind { return kinds[l.name.KindID] }

// enter returns the lock with the name, with the mutex held; for a semaphore, the owner's lock. It
// makes the lock if it does not exist. The caller leaves by exit. The clocks are read after
// the mutex is taken.
func (c *Client) enter(n *Name, o core.OwnerID) (*lockState, core.Now) {
	s := c.shardOf(n)
	now := s.lock()
	l := s.lockOf(n.KindID, n.Key, o)
	if l == nil {
		l = s.newLock(n, o)
	}
	return l, now
}

// lockOf returns the lock with the kind and the key, or nil; for a semaphore, the owner's lock.
//
// REQUIRES: shard.mu.
func (s *shard) lockOf(id KindID, key string, o core.OwnerID) *lockState {
	if !kinds[id].permits {
		return s.locks[id][key]
	}
	if p := s.pools[key]; p != nil {
		return p.locks[o]
	}
	return nil
}

// has reports whether the lock is still in the shard.
//
// REQUIRES: shard.mu.
func (s *shard) has(l *lockState) bool { return s.lockOf(l.name.KindID, l.name.Key, l.owner) == l }

// newLock adds the lock with the name; for a semaphore, the owner's lock.
//
// REQUIRES: shard.mu.
func (s *shard) newLock(n *Name, o core.OwnerID) *lockState {
	l := s.spare
	if l == nil {
		l = &lockState{shard: s}
		l.Tag = l
	}
	s.spare = nil
	k := kinds[n.KindID].core
	k.Permits = int32(n.Permits)
	l.Reset(&s.core, k)
	if l.name, l.owner = n, 0; !l.kind().permits {
		s.locks[n.KindID][n.Key] = l
		return l
	}
	p := s.pools[n.Key]
	if p == nil {
		p = &pool{locks: make(map[core.OwnerID]*lockState)}
		s.pools[n.Key] = p
	}
	l.owner, p.locks[o] = o, l
	return l
}

// named yields the locks of all kinds that have the key.
func (s *shard) named(key string) iter.Seq[*lockState] {
	return func(yield func(*lockState) bool) {
		for id := range s.locks {
			if l := s.locks[id][key]; l != nil && !yield(l) {
				return
			}
		}
		s.eachPermit(key, yield)
	}
}

// all yields all locks.
func (s *shard) all(yield func(*lockState) bool) {
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

// enterEach enters each of the locks, and calls visit with it.
func (s *shard) enterEach(locks iter.Seq[*lockState], visit func(l *lockState, now core.Now)) {
	var all []*lockState
	s.underMutex(func() { all = slices.Collect(locks) })
	for _, l := range all {
		now := s.lock()
		if s.has(l) {
			visit(l, now)
		}
		s.exit(l)
	}
}

// enterIfAny is enter without making a lock: if the lock does not exist, enterIfAny returns nil,
// and does not hold the mutex.
func (c *Client) enterIfAny(n *Name, o core.OwnerID) (*lockState, core.Now) {
	s := c.shardOf(n)
	now := s.lock()
	l := s.lockOf(n.KindID, n.Key, o)
	if l == nil {
		s.unlock()
	}
	return l, now
}

// lock takes the mutex and then reads the clocks: in the other order a goroutine that waits for the
// mutex would believe a lease that has ended meanwhile.
func (s *shard) lock() core.Now {
	if invariants {
		s.client.witness.takes()
	}
	s.mu.Lock()
	s.at = s.client.clock.at(time.Now())
	return s.at
}

// unlock gives the mutex back where package core has not changed. exit repeats its code, since a
// call costs 2 %.
//
// REQUIRES: shard.mu, which it gives back.
func (s *shard) unlock() {
	if invariants {
		s.client.witness.gives(s)
	}
	s.mu.Unlock()
}

// exit carries out the effects that need the mutex, gives it back, and carries out the rest. It
// removes the lock if it is not needed any more, so that the lock must not be used after exit.
// Nothing else gives the mutex back where package core may have changed: see unlock.
//
// REQUIRES: shard.mu, which it gives back.
func (s *shard) exit(l *lockState) {
	s.applyEffects()
	s.fault = nil
	if l.Idle() && len(s.unreported[l]) == 0 && s.has(l) {
		if l.sub != nil {
			l.unsubscribeGrants()
		}
		s.endMirrorWait(l) // there are no more answers
		delete(s.wishes, l)
		if !l.kind().permits {
			delete(s.locks[l.name.KindID], l.name.Key)
		} else if p := s.pools[l.name.Key]; len(p.locks) > 1 {
			delete(p.locks, l.owner)
		} else {
			delete(s.pools, l.name.Key)
		}
		s.spare = l
	}
	if invariants {
		s.client.witness.checks(s)
		s.client.witness.gives(s)
	}
	if a := &s.deferred; a.granted == nil && a.endings == nil && a.leaving == nil {
		s.mu.Unlock()
		return
	}
	todo := s.deferred
	s.deferred = deferred{}
	s.mu.Unlock()
	s.client.runDeferred(&todo)
}

// underMutex calls f with the mutex held. f leaves package core as it is, so that no effect needs
// exit.
func (s *shard) underMutex(f func()) {
	s.lock()
	defer s.unlock()
	f()
}

// enterTenure enters the lock that has the tenure with the ID, by its key and the text of its
// owner. If there is none it returns nil, and holds no mutex.
func (c *Client) enterTenure(key string, text wire.OwnerText, id core.ID) (*lockState, core.Now) {
	s, owner := c.shardOfKey(key), core.OwnerID(text.OwnerID())
	now := s.lock()
	for kind := range s.locks {
		if l := s.lockOf(KindID(kind), key, owner); l != nil && l.Find(id) != nil {
			return l, now
		}
	}
	s.unlock()
	return nil, now
}

// allShards yields all shards.
func (c *Client) allShards(yield func(*shard) bool) {
	for i := range c.shards {
		if !yield(&c.shards[i]) {
			return
		}
	}
}

// shardOfKey returns the shard of the locks with the key, which is the same for all kinds.
func (c *Client) shardOfKey(key string) *shard { return &c.shards[c.hashOf(key)%shardCount] }

// deferred is what exit does after it has given the mutex back, in this order.
type deferred struct {
	endings []*ending         // holds that ended by loss or by Close: their contexts end, and they are reported
	leaving []*commandContext // contexts of commands in flight whose call is decided: they end
	granted *waiter           // a call that was granted the lock: it is woken, and does not need the mutex
	others  []*waiter         // more calls that were granted the lock
}

// runDeferred carries out what exit has left for after the mutex.
func (c *Client) runDeferred(a *deferred) {
	if invariants {
		c.witness.outside("the effects of an event")
	}
	for _, e := range a.endings {
		e.report()
	}
	for _, u := range a.leaving {
		u.endCommand()
	}
	if a.granted != nil {
		a.granted.wakeWithLock()
	}
	for _, w := range a.others {
		w.wakeWithLock()
	}
}

// applyEffects carries out the effects of package core until there are none.
//
// REQUIRES: shard.mu.
func (s *shard) applyEffects() {
	for len(s.core.Effects) > 0 {
		effects := s.core.TakeEffects(s.at)
		for i := range effects { // an effect may bring about more
			e := &effects[i]
			l := e.Lock.Tag.(*lockState)
			switch e.Kind {
			case core.Wake:
				s.wakeDecided(l, e.Call.Tag.(*waiter))
			case core.Poll:
				var k *work
				if e.Tenure != nil {
					k = s.workOf(l, e.Tenure)
				}
				if e.Call != nil {
					e.Call.Tag.(*waiter).wake()
				} else {
					s.scheduleWork(k, e.At)
				}
			case core.Ended:
				if k, _ := e.Tenure.Tag.(*work); k != nil && k.tenure != nil {
					s.endWork(k)
				}
			case core.Lose:
				s.noteLost(l, e.Tenure, e.Lost, e.Cause)
			case core.Subscribe:
				l.subscribeGrants()
			case core.Unsubscribe:
				l.unsubscribeGrants()
			case core.ListenForeign:
				l.listenForeign()
			case core.IgnoreForeign:
				if l.sub != nil {
					l.sub.ignoreForeign()
				}
			case core.Wanted:
				l.tellWanted()
			default:
				panic(e.Kind)
			}
		}
		clear(effects)
	}
}

// wakeDecided wakes a call that has an outcome.
//
// REQUIRES: shard.mu.
func (s *shard) wakeDecided(l *lockState, w *waiter) {
	if w.contended {
		s.counts.Waiting--
	}
	if len(s.audiences) > 0 {
		l.noteLeftLine(w)
	}
	if w.Outcome == core.Unanswered && s.fault != nil {
		w.err = s.fault
	}
	granted := w.Outcome == core.Acquired
	if granted {
		w.earlier = l.noteGranted(&w.Call, &w.req, w.hold)
		w.waited = time.Duration(s.at.Time.Since(w.Began))
		s.counts.Waited += w.waited
	}
	switch {
	case w.stage == flying && w.context == nil: // the caller of the command waits for the answer
	case w.stage == flying:
		s.deferred.leaving = append(s.deferred.leaving, w.context)
		w.context = nil // no other command may reuse it
	case w.stage == running: // the running goroutine sees the outcome itself
	case !granted:
		w.wake()
	case s.deferred.granted == nil:
		w.stage, s.deferred.granted = granting, w
	default:
		w.stage, s.deferred.others = granting, append(s.deferred.others, w)
	}
}

// noteGranted notes that a call has acquired the lock, and returns the losses before the grant.
//
// REQUIRES: shard.mu.
func (l *lockState) noteGranted(w *core.Call, req *Request, h *hold) earlierLosses {
	s := l.shard
	req.Way = ways[w.Way]
	s.counts.Acquired[req.Way]++
	if w.Way != core.ByNesting {
		s.counts.Held++
	}
	s.client.holdBegins()
	if h != nil {
		if h.token = w.Token; h.least > 0 {
			h.stayUntil = s.at.Time.After(h.least)
		}
	}
	switch w.Way {
	case core.ByRedis, core.ByQueue, core.ByPass:
		if c := s.client; !c.Config.NoClientChannel { // the first tenure subscribes to the client's channel, until the hub closes
			c.hearing.Do(func() { c.Hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), c.hearClientMessage) })
		}
	case core.ByNesting, core.ByHandoff, core.ByJoining: // the client has had a tenure before
	default:
		panic("driver: a lock is acquired " + w.Way.String())
	}
	return earlierLosses{slices.Clone(s.unreported[l]), s.losses}
}

var ways = [...]contract.Way{
	core.ByRedis:   contract.ByRedis,
	core.ByQueue:   contract.ByQueue,
	core.ByNesting: contract.ByNesting,
	core.ByHandoff: contract.ByHandoff,
	core.ByJoining: contract.ByJoining,
	core.ByPass:    contract.ByPass,
}

// A clock reads the two clocks of package core: the monotonic clock, and one that advances by the
// larger of what the monotonic and the wall clock advance. A monotonic clock stands still while the
// machine sleeps (golang/go#24595), and Redis' clock does not.
type clock struct {
	start time.Time
	wall  int64 // the wall clock at start, in nanoseconds

	// skew is the lead of the wall clock over the monotonic one when it was last noted, and ahead
	// the sum of all noted steps ahead, in nanoseconds.
	skew, ahead atomic.Int64
	mu          sync.Mutex // held while both change
}

// stepNoise is the largest step of the wall clock that is not noted, since that clock is adjusted
// all the time, and the two clocks are not read at the same moment. The margin of a lease covers
// it.
const stepNoise = time.Millisecond / 2

// now reads the clocks.
func (c *clock) now() core.Now { return c.at(time.Now()) }

func (c *clock) at(t time.Time) core.Now {
	monotonic := int64(t.Sub(c.start))
	if skew := t.UnixNano() - c.wall - monotonic; isStep(skew - c.skew.Load()) {
		c.noteStep(skew)
	}
	return core.Now{Time: core.Time(monotonic), Safe: core.SafeTime(monotonic + c.ahead.Load())}
}

func isStep(nanoseconds int64) bool {
	return nanoseconds > int64(stepNoise) || nanoseconds < -int64(stepNoise)
}

// noteStep notes a step of the wall clock. A step back does not lengthen the trust in a lease.
//
// time.Now reads the wall clock first. If the process is interrupted before it reads the other one,
// which lasts for many milliseconds on a busy machine, the lead seems to be less, and the next
// reading would be a step ahead, by which all leases end sooner. So the clocks are read again.
func (c *clock) noteStep(skew int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := time.Now()
	skew = max(skew, again.UnixNano()-c.wall-int64(again.Sub(c.start)))
	if step := skew - c.skew.Load(); isStep(step) {
		c.ahead.Add(max(step, 0))
		c.skew.Store(skew)
	}
}

// timeOf converts a time of the monotonic clock.
func (c *clock) timeOf(t core.Time) time.Time { return c.start.Add(time.Duration(t)) }

// timeOfSafe converts a time of the clock that never runs behind: to the time at which this clock
// shows it if both clocks run alike from now on.
func (c *clock) timeOfSafe(t core.SafeTime) time.Time {
	return c.start.Add(time.Duration(int64(t) - c.ahead.Load()))
}
