package driver

import (
	"sync"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/engine"
)

// A shard is a part of a client's locks of one kind under one mutex.
type shard struct {
	client *Client
	kind   *kind

	mu    sync.Mutex // protects following, and every lock in it
	core  core.Client
	locks map[string]*lock
	spare *lock // to be used again: a lock that is taken and freed all day would touch new memory each time

	counts    engine.Counts      // see package engine's stats.go
	backoffs  map[string]backoff // the locks that do not linger for a while, by key
	lingering lingering

	at       core.Now   // when the mutex was taken
	released core.Cause // of the effect Released that was carried out last
	asked    *work      // that the keeper asks about, and has no need to be told of
	after    after      // what exit does once it has given the mutex back
}

// A lock is one lock of the client. It exists while there is a holder, a waiter, a tenure or a loss that is
// still to be told, and leaves nothing behind.
type lock struct {
	core.Lock
	shard *shard
	name  *engine.Name

	sub       subscription    // to the channel on which this client is told of its tickets; nil for none
	heard     bool            // that was confirmed when it was last looked at
	reused    bool            // a hold began in the tenure while that lingered
	mirrorsIn chan struct{}   // closed with the next answer to a mirror, nil if no caller waits for one
	untold    []chan struct{} // each is closed once a loss was told
	long      []longHold      // those that were told to last for a long time
}

// enter returns the lock of n with the mutex held, and makes it if need be. The caller leaves with exit. The
// clocks are read after the mutex is taken.
func (c *Client) enter(n *engine.Name) (*lock, core.Now) {
	s := c.shardOf(n)
	now := s.take()
	l := s.locks[n.Key]
	if l == nil {
		if l = s.spare; l == nil {
			l = new(lock)
			l.Tag = l
		}
		s.spare = nil
		l.Reset(&s.core, s.kind.core)
		l.shard, l.name, l.reused, l.long = s, n, false, l.long[:0]
		s.locks[n.Key] = l
	}
	return l, now
}

// enterIfAny is enter where there is nothing to do without a lock: it returns nil, and holds no mutex, if
// there is none.
func (c *Client) enterIfAny(n *engine.Name) (*lock, core.Now) {
	s := c.shardOf(n)
	now := s.take()
	l := s.locks[n.Key]
	if l == nil {
		s.mu.Unlock()
	}
	return l, now
}

// again enters a lock that cannot have gone: a call waits in it, or a tenure of it is not over.
func (l *lock) again() core.Now { return l.shard.take() }

// take takes the mutex, and reads the clocks then: a goroutine that is delayed between the two would believe
// a lease that has ended.
func (s *shard) take() core.Now {
	s.mu.Lock()
	s.at = s.client.clock.now()
	return s.at
}

// exit gives the mutex back, after the effects are carried out that need it. Those that must not be carried
// out under a mutex follow. A lock that is not needed any more is gone then, so that it must not be looked at
// after exit. Together with the two ways to give back a mutex under which nothing has changed (enterIfAny,
// glance) it is the only place that does so.
func (s *shard) exit(l *lock) {
	if t := l.Owner(); t != nil {
		s.lingers(s.workOf(l, t))
	}
	s.carryOut()
	if len(l.untold) == 0 && l.Idle() && s.locks[l.name.Key] == l {
		l.unsubscribe()
		delete(s.locks, l.name.Key)
		s.spare = l
	}
	if checks != nil {
		checks(s)
	}
	if !s.after.any() {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}
