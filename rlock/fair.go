package rlock

import (
	"strconv"
	"time"
)

// A FairLock is a [Lock] that is granted first come, first served, over all clients.
//
// Who must wait has a place in a queue in Redis, and the Unlock before it grants it
// the lock, in one step: one command and one round trip from one holder to the next,
// however many wait, with a message to the next holder's client alone. Nobody else
// wakes, nobody races, and nobody who comes later can be first.
//
// The order is that of the calls to within 25 ms, or a quarter of the time that one
// waits there: those who wait in a client that has somebody in the queue already join
// it in the next command that the client sends for the lock, or after that time. Inside
// a client it is exact. A client passes the
// lock on among its own goroutines first for as long as [Config].HandoffLimit and
// HandoffTime allow, as a Lock does; with a negative HandoffLimit it never does, and
// the order holds over all.
//
// Who dies while it waits is passed over: at once if its connection ended with it.
// One that dies with the lock granted, and not yet confirmed, keeps it for two
// seconds, and one that holds it keeps it for its lease; then the next in the queue
// has it within half a second, and all others of the dead client are passed over. Who
// loses its connection to Redis, stands still for so long, or whose queue is lost in a
// failover, joins again at the end.
//
// All methods and errors are those of Lock, with these differences:
//
//   - A FairLock and a Lock (or Redisson's RLock) of one name exclude each other, since
//     they are one key, but they do not queue together: while anybody is in the queue
//     nobody else gets the lock. So a Lock may wait for as long as there are waiters
//     here; do not mix them where both are contended. Within a client, a goroutine that
//     holds the one and locks the other waits for itself.
//   - TryLock fails also while the lock is free and somebody waits for it, or did a
//     moment ago: who gives up leaves the queue in the background.
//   - Who is granted it in the queue has it for two seconds at first, and for its lease
//     once Redis was told of that, less than a second later. Until then
//     [Hold.ValidUntil] and TTL say less.
//   - ForceUnlock lets the next in the queue have it.
//   - Without the right to subscribe to its channel a wait fails with [ErrNoPermission]:
//     there is nothing to poll for. The channels are rlock_fair:{name}:*, and the queue
//     is the key rlock_fair_queue:{name}; if the name has an opening brace it stands
//     there with a colon in place of the braces, as in rlock_fair_queue:{orders}:42: .
//
// # Cost
//
// What a Lock costs when nobody waits. A wait costs two round trips at first, and two
// commands a second for each client that waits, in which it says that it is still
// there. A hand-over takes a round trip where a crowd of plain Locks wakes and passes
// the lock on in less: choose FairLock for who must not starve or be overtaken, and
// Lock for throughput.
//
// # Redisson
//
// Redisson's getFairLock() is another lock: its queue has other keys, and a FairLock
// only excludes it, as it does Redisson's RLock. There the unlock wakes the first in
// the queue, which then asks for the lock; here it grants it. There a waiter that died
// holds up the queue until its time is over, five minutes by default; here nobody
// waits for who is gone.
type FairLock struct{ lock }

var _ Locker = (*FairLock)(nil)

// NewFairLock returns the fair lock of that name, at no cost, as [Client.NewLock]
// does.
func (c *Client) NewFairLock(key string) *FairLock {
	return &FairLock{lock{client: c, name: c.newName(fairKind, key)}}
}

// claimLease is for how long a ticket has the lock unless its client asks for more,
// and so how long a client that died with a grant on its way keeps others waiting. It
// is a part of the protocol: fair.lua says the same.
const claimLease = 2 * time.Second

// fair is the kind of [FairLock]: the plain lock's hash, and a queue of tickets.
type fair struct{ plain }

func (fair) acquire(t *tenure, n news) call {
	c := t.room.client
	unqueued := "0"
	if n.unqueued {
		unqueued = "1"
	}
	return c.step(t.room.name, n, t.text, c.milliseconds(t.lease), unqueued)
}

func (fair) release(c *Client, at *name, owner string, n news) call {
	n.texts = append([]string{owner}, n.texts...)
	n.leaving++
	return c.step(at, n, "", "0", "0")
}

// step is a call of fair.lua.
func (c *Client) step(at *name, n news, asking, lease, unqueued string) call {
	args := append([]string{
		c.publish, c.numsub, at.grants, asking, lease, unqueued,
		strconv.Itoa(n.leaving), strconv.Itoa(len(n.joined)),
	}, n.texts...)
	return call{script: fairScript, keys: []string{at.key, at.beside, at.channel}, args: args}
}
