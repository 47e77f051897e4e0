package rlock

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/group"
)

// NewRedLock returns the lock of that name over the servers of the clients, which must be
// independent of each other: not the nodes of one Cluster or Sentinel. Its holder holds the lock
// of its name in most of them, so that it survives the loss of the others.
//
// Use an odd number of three or more servers, the same in the same order in all processes. A nil
// client stands for a server that cannot be reached while the process starts. Without a majority
// that is not nil, or with two clients of one address, the methods return [ErrInvalidConfig].
//
// All servers are asked at once. The hold is valid until the majority is not: each grant is
// judged by its own client from before it was sent. Then the hold's context ends with [ErrLost],
// and the other parts are released. While a majority is valid, the watchdog takes a lost part
// again, on a server that has been the same process for the largest [Config].LongestLease of the
// clients: restart the next server 40 s after the last one is back, with the default leases.
// Where INFO is refused, or in a Cluster, nothing is taken again.
//
// Restart a server without its data only after the longest lease, and at least two seconds:
// otherwise two clients may hold the lock. Unlock with the Lock value you locked with. A red lock
// has no fencing token. docs/kinds.md has more.
// It is Redisson's RedissonRedLock, which does not judge validity, and polls.
func NewRedLock(clients []*Client, name string) *Lock {
	var parts []group.Locker
	for i, c := range clients {
		if c == nil {
			continue
		}
		if other := slices.IndexFunc(clients[:i], func(other *Client) bool { return other != nil && c.shared.Redis.Shares(other.shared.Redis) }); other >= 0 {
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
