package rlock

import "github.com/go-rlock/rlock/rlock/internal/engine"

// NewFencedLock returns the fenced lock of that name. Like [Client.NewLock] it sends no
// command. The lock numbers its critical sections: each time that it is granted, or handed off
// inside the process, the new holder has a fencing token that is larger than any before, over
// all processes and over Redisson's RFencedLock of that name. A nested lock has the token
// of the outer one. [Hold.Token] and [Lock.Token] return it.
//
// A holder that was stopped for longer than its lease continues to write when it resumes,
// since it has not noticed. A resource is safe from such writes if it gets the token with
// every write, and rejects each token that is less than the largest that it has seen:
//
//	UPDATE orders SET state = ?, token = ? WHERE id = 42 AND token <= ?
//
// If no row was updated, the write was rejected. The column needs a number from the
// beginning, such as 0: a comparison with NULL rejects every write.
//
// Tokens grow, but may skip numbers. Most tenures reserve one. In a process where many
// goroutines wait for the lock, a tenure reserves as many as it may need, and the rest
// is never used. A lock without a token left is released instead of being handed off. A
// process that has lost the lock and has not noticed may hand it off with a token that is
// less than that of the next holder; its writes are then rejected.
//
// The counter is a key of its own, Redisson's "redisson_lock_token:{name}". It has
// no lease and stays when the lock is free, so that there is one for each name that
// was ever used. Where Redis loses it, by a failover, by eviction or by a DEL,
// tokens go back: it must be kept as safe as the data that the tokens protect, by
// [Config.SyncReplicas] for one. Redisson's RFencedLock.delete and expire lose it. The user
// needs the rights to the key, INCRBY and GET; without them, and where the key is no counter, locking fails
// with [ErrNoPermission] or [ErrWrongType] and the lock stays free.
//
// A name should have locks of one kind only. A fenced lock and a plain one of one name
// keep each other out, but do not nest: an owner that holds the one and locks the other
// waits for itself.
//
// Redisson's getFencedLock(name).
func (c *Client) NewFencedLock(name string) *Lock {
	return lockOf(c, engine.NewLock(c.engine, engine.FencedKind, name))
}
