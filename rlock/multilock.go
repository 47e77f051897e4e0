package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// NewMultiLock returns the lock that is all of these or none: locks of whatever names and
// kinds, and of whatever clients, so that a piece of work may need locks of several Redis. It
// is made of them, and is nothing in Redis itself: a holder of one of the parts
// keeps it out. Its methods are for all parts together.
//
// The parts are taken one after the other, in an order that is the same for all callers
// that take the same ones: by name, then by kind, then by the addresses, the Sentinel's
// master set and the database in the Config of the client. So two that want each
// other's parts never wait for each other, unless they hold others already. Where parts
// of one name and kind are at several Redis, all processes should call these by the same
// addresses; where those are the same too, the order is that of the arguments.
//
// A wait, that of ctx or of TryLockFor, is for all parts together. Where it ends, or a
// part fails, what was taken is released. While others are waited for, the watchdog keeps
// what is taken.
//
// A fixed lease is that of all parts, and begins when all are taken: if the way to them
// took more than a hundredth of it, Redis is told again. Until it confirms that,
// [Hold.ValidUntil] is what it has confirmed so far, always counted from before what set
// the lease was sent, and so never later than what Redis keeps.
// (Redisson's begins with each part, and may grow with each attempt.)
//
// If one part is lost, all are: the hold's context ends, the others are released at
// once, and Unlock returns [ErrLost], since half of a multi-lock protects nothing. Unlock
// releases every part, whatever becomes of the others, and joins the errors.
//
// The parts nest by their owner, each for itself. Parts that exclude each other, as
// locks of different kinds and one name may, cannot be had together. A multi-lock has
// no fencing token; a fenced lock among the parts tells its own to the owner.
//
// It asks Redis nothing. The same lock counts once, however often it is given: two locks of
// one kind, name and client are the same. The parts of a multi-lock among them count as if
// they were given themselves. Without locks, or with one that is nil or a zero value, every
// method that can returns [ErrInvalidConfig].
//
// Redisson's RedissonMultiLock.
func NewMultiLock(locks ...*Lock) *Lock {
	ordered, err := partsOf(locks)
	if err != nil {
		return &Lock{&compound{err: err}}
	}
	slices.SortStableFunc(ordered, func(a, b *Lock) int {
		return slices.CompareFunc(a.form().beneath(), b.form().beneath(), inOrder)
	})
	var names []string
	for _, p := range ordered {
		names = append(names, p.Name())
	}
	c := newCompound(strings.Join(slices.Compact(names), ","), ordered, len(ordered))
	c.gather, c.kind = c.oneAfterTheOther, KindMulti
	return &Lock{c}
}

// partsOf looks into multi-locks, drops what is given twice, and refuses what has no
// order.
func partsOf(locks []*Lock) (all []*Lock, err error) {
	for i, l := range locks {
		if l == nil || l.made == nil {
			return nil, fmt.Errorf("rlock: multi-lock: %w: lock %d is nil or a zero value", ErrInvalidConfig, i)
		}
		if err := l.form().unusable(); err != nil {
			return nil, err
		}
		more := []*Lock{l}
		if c, ok := l.made.(*compound); ok && c.kind == KindMulti {
			more = c.parts
		}
		for _, p := range more {
			if !slices.ContainsFunc(all, func(other *Lock) bool { return sameLock(p, other) }) {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("rlock: multi-lock: %w: it has no locks: give it at least one", ErrInvalidConfig)
	}
	return all, nil
}

func sameLock(a, b *Lock) bool {
	return slices.EqualFunc(a.form().beneath(), b.form().beneath(), (*single).same)
}

// inOrder is the order in which parts are taken.
func inOrder(a, b *single) int {
	order := cmp.Or(cmp.Compare(a.name.key, b.name.key), cmp.Compare(a.name.id, b.name.id))
	if order == 0 && a.client != b.client {
		order = cmp.Compare(a.client.where(), b.client.where())
	}
	if order == 0 && a.shared != b.shared && b.shared {
		order = -1 // a writer may read, and not the other way round
	} else if order == 0 && a.shared != b.shared {
		order = 1
	}
	return order
}

// oneAfterTheOther takes all parts, and begins anew if one was lost meanwhile.
func (c *compound) oneAfterTheOther(ctx context.Context, p *parts, req request) error {
	began := time.Now()
	for kept := false; ; kept = true { // a lease that was too short for the way is not again
		holds, err := c.takeAll(ctx, req, began, kept)
		if err == nil {
			p.join(holds...)
			return nil
		}
		giveBack(ctx, holds)
		if !errors.Is(err, errAnew) || req.left(began) <= 0 {
			return err
		}
	}
}

// errAnew says that a part was lost while others were waited for.
var errAnew = errors.New("a part was lost while others were waited for")

// takeAll returns what it has taken, also with an error. If kept is set, or once a part
// has to be waited for, the watchdog keeps what is taken until all are.
func (c *compound) takeAll(ctx context.Context, req request, began time.Time, kept bool) (holds []*Hold, err error) {
	started := time.Now()
	for _, l := range c.parts {
		wait := req.left(began)
		if !kept && req.lease > 0 && wait > 0 && len(holds) > 0 {
			if h, err := l.TryAcquire(ctx, asPart, WithLease(req.lease)); err == nil {
				holds = append(holds, h)
				continue
			}
			kept = true
			for _, h := range holds {
				h.relet(0)
			}
		}
		lease := req.lease
		if kept {
			lease = 0
		}
		h, err := l.Acquire(ctx, asPart, WithLease(lease), WithWait(wait))
		if err != nil {
			return holds, err
		}
		holds = append(holds, h)
	}
	for _, h := range holds {
		if err := h.Err(); err != nil {
			return holds, fmt.Errorf("rlock: lock %q: %w: %w", c.name, errAnew, err)
		}
	}
	if req.lease > 0 && (kept || time.Since(started) > req.lease/100) {
		for _, h := range holds {
			h.relet(req.lease) // it begins now, and is trusted once Redis confirms it
		}
	}
	return holds, nil
}
