package rlock

import (
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/group"
)

// NewMultiLock returns the lock that is all of these or none: locks of any names, kinds and
// clients. It has no key of its own in Redis.
//
// The parts are taken one after the other, in an order that is the same for all callers, so that
// two callers cannot deadlock unless they hold other locks already. If the wait ends or a part
// fails, the parts that were taken are released. If one part is lost, all are: the others are
// released at once, and Unlock returns [ErrLost]. Unlock joins the errors of the parts. A fixed
// lease begins when all parts are taken.
//
// The same lock counts once, however often it is given. Without locks, or with one that is nil or
// a zero value, the methods return [ErrInvalidConfig]. A multi-lock has no fencing token; a
// fenced lock among the parts tells its own. docs/kinds.md has more.
// It is Redisson's RedissonMultiLock.
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
