package rlock

import (
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/group"
)

// NewMultiLock returns the lock that is all of these or none: locks of any names, kinds
// and clients, so that a piece of work may need locks of several Redis. It has no key of its
// own in Redis: while another owner holds one of the parts, it cannot be acquired. Its
// methods are for all parts together.
//
// The parts are taken one after the other, in an order that is the same for all callers
// that take the same ones: by name, then by kind, then by the addresses, the Sentinel's
// master set and the database in the Config of the client. So two callers that want each
// other's parts never wait for each other, unless they hold other locks already. Where parts
// of one name and kind are at several Redis, all processes should call these by the same
// addresses; where those are the same too, the order is that of the arguments.
//
// A wait, that of ctx or of TryLockFor, is for all parts together. If it ends, or a part
// fails, the parts that were taken are released. While the call waits for a part, the
// watchdog renews those that are taken; if one of them is lost nevertheless, the call begins
// anew at once.
//
// A fixed lease is that of all parts, and begins when all are taken: if the way to them
// took more than a hundredth of it, Redis is told again. Until it confirms that,
// [Hold.ValidUntil] is the time that it has confirmed so far, counted from before the
// command was sent, and so never later than the lease in Redis.
// (Redisson's begins with each part, and may grow with each attempt.)
//
// If one part is lost, all are: the hold's context ends, the others are released at
// once, and Unlock returns [ErrLost], since half of a multi-lock protects nothing. Unlock
// releases every part, also if others fail, and joins the errors.
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
