package rlock

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/group"
)

// NewRedLock returns the lock of that name over the servers of the clients, which must be
// independent of each other: not the nodes of one Cluster or Sentinel. Its holder holds the
// lock of its name in most of them, so that it survives the loss of the others (Redis
// documentation, "Distributed Locks with Redis").
//
// Use an odd number of three or more servers: an even number tolerates no more failures than
// one less, of two none may fail, and of one it is a plain lock. It asks Redis nothing.
// Without clients, or with one that has an address that another one has, every method that can
// returns [ErrInvalidConfig]; for a name that no lock can have, [ErrInvalidName].
//
// A client that is nil stands for a server that cannot be reached while the process starts,
// so that [New] fails: it counts as one of the servers, and grants nothing. If so many are nil
// that there is no majority, the methods return ErrInvalidConfig. Once New has succeeded, use a
// new lock with all clients. Unlock with the Lock value you locked with.
//
// All servers are asked at once, and the call returns when it is decided: the slow and
// the dead ones do not delay it. A grant that comes later joins the hold. The hold is valid
// until the majority is not: each grant is judged by its own client from before it was
// sent (see the package comment), and [Hold.ValidUntil] is that of the part whose loss
// would end the majority. So elapsed time and drift are taken off, and a grant that came
// too late does not count. Each part is renewed by its client. A part that is lost is not
// taken again while the lock is held. Once the majority is lost the hold's context ends
// with [ErrLost], and the parts that are left are released.
//
// A nested Lock sends no command. Each level has a majority of its own, so that after the
// loss of some servers an outer level may be lost and an inner one not, or the other way
// round: a caller that is told of a loss should unlock every level. [Lock.HoldCount] is then
// the least that is certain.
//
// Unlock returns when most servers have confirmed it, and else [ErrUnconfirmed] or
// [ErrLost]; the others are told in the background. TryLock fails with the errors of
// the servers if so many fail that there can be no majority, and a Lock that waits
// goes on until its context ends.
//
// A waiter waits at one server after the other, from the first that denies, for its
// message, and keeps the parts that the servers before have granted. Give the same servers
// in the same order to all processes: then two waiters cannot deadlock. If the orders differ,
// they may, for some seconds, until one of them releases its parts. At the latest after two
// seconds a waiter asks all servers again, since the server where it waits may be dead.
//
// A server that forgets a lock, because it was restarted without its data or failed over
// to a replica without it, may grant it again: if such servers and those whose grant
// the holder does not have are a majority, two clients hold the lock. Restart such a server only after
// the longest lease has passed, and two seconds at least: a grant out of the queue has such
// a lease at first. A red lock has no fencing token, and cannot stop code that is already
// running.
//
// Redisson's RedissonRedLock, which does not judge validity, and polls.
func NewRedLock(clients []*Client, name string) *Lock {
	var parts []group.Locker
	for i, c := range clients {
		if c == nil {
			continue
		}
		if other := slices.IndexFunc(clients[:i], func(other *Client) bool { return other != nil && c.engine.Redis.Shares(other.engine.Redis) }); other >= 0 {
			return &Lock{made: over{group.RefusingRed(name, "clients %d and %d have the same server, which would count twice", other, i)}}
		}
		part, err := c.NewLock(name).part()
		if err != nil {
			return &Lock{made: over{group.Refusing(name, err)}}
		}
		parts = append(parts, part)
	}
	return &Lock{made: over{group.NewRed(name, parts, len(clients))}}
}
