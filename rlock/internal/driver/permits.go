package driver

import (
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A semaphore is a sorted set of the owners that have permits, and of the ends of their leases. To package core the permits
// of each owner are a lock of their own: of the name and the owner. Those of one name are together in a pool, under one mutex and
// with one subscription: a grant names its owner, and costs no more where thousands wait.

// A pool has the permits of one name.
type pool struct {
	locks map[core.OwnerID]*lock // that hold a permit or wait for one
	sub   subscription           // nil for none
	users int                    // locks that are subscribed
}

func acquirePermit(r *redis, c *exchange) wire.Call {
	return wire.SemaphoreAcquire.Call(2, c.name.Key, c.name.Queue(), r.milliseconds(c.cmd.Lease), c.text, number(&c.cmd))
}

func resumePermit(r *redis, c *exchange) wire.Call {
	return wire.SemaphoreResume.Call(2, c.name.Key, c.name.Queue(), r.milliseconds(c.cmd.Lease), c.passed, c.text)
}

func mirrorPermits(r *redis, part []*exchange) wire.Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 2*len(part))
	for _, c := range part {
		keys = append(keys, c.name.Key)
		args = append(args, r.mirrorLease(&c.cmd), c.text)
	}
	return wire.Call{Script: wire.SemaphoreMirror, Keys: keys, Args: args}
}

// ownerIn returns the owner that the text of a tenure names, "<uuid>:<owner>" or "<uuid>:<owner>*k"; 0 for none.
func ownerIn(text string) core.OwnerID {
	text, _ = wire.CutMore(text)
	if len(text) < wire.TenureLen {
		return 0
	}
	o, err := strconv.ParseUint(text[wire.TenureLen:], 10, 64)
	if err != nil {
		return 0
	}
	return core.OwnerID(o)
}

// permit returns the lock of the owner's permit, nil if there is none.
func (s *shard) permit(key string, o core.OwnerID) *lock {
	if p := s.pools[key]; p != nil {
		return p.locks[o]
	}
	return nil
}

func (s *shard) addPermit(l *lock) {
	p := s.pools[l.name.Key]
	if p == nil {
		p = &pool{locks: make(map[core.OwnerID]*lock)}
		s.pools[l.name.Key] = p
	}
	p.locks[l.owner] = l
}

func (s *shard) removePermit(l *lock) {
	p := s.pools[l.name.Key]
	delete(p.locks, l.owner)
	if len(p.locks) == 0 {
		delete(s.pools, l.name.Key)
	}
}

// eachPermit calls yield with each lock of the name.
func (s *shard) eachPermit(key string, yield func(*lock) bool) bool {
	p := s.pools[key]
	if p == nil {
		return true
	}
	for _, l := range p.locks {
		if !yield(l) {
			return false
		}
	}
	return true
}

// A share is one lock's part of the subscription of its pool.
type share struct {
	subscription
	pool *pool
}

// share subscribes for one more lock of the name.
func (s *shard) share(n *Name, listen func() subscription) subscription {
	p := s.pools[n.Key]
	if p.sub == nil {
		p.sub = listen()
	}
	p.users++
	return &share{p.sub, p}
}

func (s *share) close() {
	if s.pool.users--; s.pool.users == 0 {
		s.pool.sub.close()
		s.pool.sub = nil
	}
}

func guardPermits(c *exchange) guard {
	return guard{wire.SemaphoreGuard, []string{c.name.Key}, []string{c.text}}
}
