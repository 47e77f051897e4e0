package rlock

import (
	"context"
	"fmt"
	"time"
)

// A FencedLock is a [Lock] that numbers its sections: each time that it is granted,
// or passed on inside the process, the new holder has a fencing token that is
// larger than any before, over all processes and over Redisson's RFencedLock of
// that name. A nested lock has the token of the outer one.
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
// A name should have locks of one kind only. A FencedLock and a Lock of one name
// keep each other out, but do not nest: an owner that holds the one and locks the other
// waits for itself. A Lock has no tokens, and neither has a holder by it.
type FencedLock struct{ lock }

var _ Locker = (*FencedLock)(nil)

// NewFencedLock returns the fenced lock of that name, at no cost, as [Client.NewLock]
// does.
//
// Redisson's getFencedLock(name).
func (c *Client) NewFencedLock(key string) *FencedLock {
	return &FencedLock{lock{client: c, name: c.newName(fencedKind, key)}}
}

// Token returns the fencing token of what the caller holds, judged without asking
// Redis. It is [ErrNotHeld] if the caller holds nothing, and [ErrLost] if it has
// lost the lock and not unlocked it yet. With a handle, use
// [Hold.Token].
//
// Redisson's lockAndGetToken() returns the same. Its getToken() does not: it
// returns the counter, which is somebody else's token if the caller holds nothing.
func (l *FencedLock) Token(ctx context.Context) (uint64, error) {
	if l.name.err != nil {
		return 0, l.name.err
	}
	owner := ownerOf(ctx)
	if r := l.client.visitIfAny(l.name); r != nil {
		defer r.exit()
		if t := r.current(time.Now()); t != nil && t.holds(owner) {
			return t.tokens.current, nil
		}
	}
	if cause := l.client.losses.find(lossKey{l.name.id, l.name.key, owner}); cause != nil {
		return 0, cause
	}
	return 0, fmt.Errorf("rlock: token of %q: owner %s: %w", l.name.key, owner, l.client.losses.notHeld())
}

const (
	// A tenure reserves moreTokens times as many tokens as the one before it used,
	// if somebody has waited since. So one that is alone takes one, and a crowd has
	// enough after a few tenures.
	moreTokens = 16
	// maxTokens is the most that a tenure reserves. It is freed after as many
	// sections: of a crowd that does nothing else some fifteen times a second.
	maxTokens = 1 << 16
)

// tokens are those that a tenure has reserved; nil is a lock without tokens.
type tokens struct {
	reserved uint64 // how many
	current  uint64 // of the section that goes on, 0 before the grant
	last     uint64
}

// asked returns how many an acquire is to reserve, 0 for a lock without tokens.
func (k *tokens) asked() uint64 {
	if k == nil {
		return 0
	}
	return k.reserved
}

// take begins with the first of the n tokens that end with last.
func (k *tokens) take(last, n uint64) {
	if k != nil {
		k.reserved, k.current, k.last = n, last-n+1, last
	}
}

// section returns the token of the section that goes on.
func (k *tokens) section() uint64 {
	if k == nil {
		return 0
	}
	return k.current
}

// spent reports whether there is no token for another section.
func (k *tokens) spent() bool { return k != nil && k.current == k.last }

// next returns how many the tenure after this one should reserve.
func (k *tokens) next() uint64 {
	if k == nil {
		return 0
	}
	used := k.reserved - (k.last - k.current)
	return min(moreTokens*used, maxTokens)
}
