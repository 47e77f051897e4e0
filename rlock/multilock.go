package rlock

import (
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/group"
)

// NewMultiLock returns the lock that is all of these or none: locks of any names, kinds
// and clients, so that a piece of work may need locks of several Redis. It has no key of its
// own in Redis. Its methods are for all parts together.
//
// The parts are taken one after the other, in an order that is the same for all callers, so
// that two callers cannot deadlock unless they hold other locks already. If the wait ends or a
// part fails, the parts that were taken are released. If one part is lost, all are: the hold's
// context ends, the others are released at once, and Unlock returns [ErrLost]. Unlock releases
// every part, also if others fail, and joins the errors. A fixed lease begins when all parts are
// taken.
//
// The same lock counts once, however often it is given. Parts that exclude each other cannot be
// had together. Without locks, or with one that is nil or a zero value, every method that can
// returns [ErrInvalidConfig]. A multi-lock has no fencing token; a fenced lock among the parts
// tells its own to the owner. docs/kinds.md has more.
//
// Redisson's RedissonMultiLock.
func NewMultiLock(locks ...*Lock) *Lock {
	var parts []group.Locker
	for i, l := range locks {
		if l == nil || l.made == nil {
			return &Lock{made: over{group.Refusing("", fmt.Errorf("rlock: multi-lock: %w: lock %d is nil or a zero value", ErrInvalidConfig, i))}}
		}
		part, err := l.part()
		if err != nil {
			return &Lock{made: over{group.Refusing("", err)}}
		}
		parts = append(parts, part)
	}
	return &Lock{made: over{group.NewMulti(parts)}}
}
