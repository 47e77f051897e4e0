package rlock

import "github.com/go-rlock/rlock/rlock/internal/engine"

// NewFencedLock returns the fenced lock of that name, at no cost, as [Client.NewLock]
// does. It numbers its critical sections: each time that it is granted, or handed off
// inside the process, the new holder has a fencing token that is larger than any before, over
// all processes and over Redisson's RFencedLock of that name. A nested lock has the token
// of the outer one. [Hold.Token] and [Lock.Token] return it.
//
// A holder that was stopped for longer than its lease goes on writing when it
// wakes, since it cannot know. A resource that is given the token with every write,
// and refuses one that is less than it has seen, is safe from it:
//
//	UPDATE orders SET state = ?, token = ? WHERE id = 42 AND token <= ?
//
// The number of rows is the answer: if it is 0 the write was refused.
//
// Tokens grow; they do not count. Most tenures reserve one. In a process where
// many goroutines pass the lock on, a tenure reserves as many as it may need, and
// those that it does not need are nobody's. A lock without a token left is freed in
// place of being passed on. A process that has lost the lock and has not learnt it
// yet may pass it on with a token less than that of the next holder, as it should be:
// it will be refused.
//
// The counter is a key of its own, Redisson's "redisson_lock_token:{name}". It has
// no lease and stays when the lock is free, so that there is one for each name that
// was ever used. Where Redis loses it, by a failover, by eviction or by a DEL,
// tokens go back: it must be kept as safe as what the tokens protect, by
// [Config.SyncReplicas] for one. Redisson's RFencedLock.delete and expire lose it. The user needs the rights to the
// key, INCRBY and GET; without them, and where the key is no counter, locking fails
// with [ErrNoPermission] or [ErrWrongType] and the lock stays free.
//
// A name should have locks of one kind only. A fenced lock and a plain one of one name
// keep each other out, but do not nest: an owner that holds the one and locks the other
// waits for itself. A plain lock has no tokens, and
// neither has its holder.
//
// Redisson's getFencedLock(name).
func (c *Client) NewFencedLock(key string) *Lock {
	return lockOf(engine.NewLock(c.engine, engine.FencedKind, key))
}
