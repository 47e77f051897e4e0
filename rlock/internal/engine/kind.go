package engine

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A kind is what one sort of lock is in Redis. The room, its queue, the tenure and
// the keeper are the same for all of them.
//
// Each of its calls can be sent again after a lost reply without changing the outcome.
type kind struct {
	// public is the kind as users see it. The read lock is another.
	public Kind
	// step is the script for all that touches the queue: the kind's part of it,
	// queue.lua, foreign.lua and grant.lua.
	step *wire.Script
	// acquire is the call that takes a lock that nobody has or waits for. It is answered
	// as acquire.lua answers.
	acquire func(t *tenure) wire.Call
	// mirror is the call that makes Redis show the tenures of part, which are of one slot.
	// Its answer is an array of numbers, as mirror.lua's.
	mirror func(c *Client, part []sent) wire.Call
	// holders asks Redis for the owners whose tenures an unlock by force has to release.
	holders func(ctx context.Context, l *Lock) ([]string, error)
	// locked asks Redis whether anybody holds the lock, and ttl for how long.
	locked func(ctx context.Context, l *Lock) (bool, error)
	ttl    func(ctx context.Context, l *Lock) (time.Duration, error)

	// number returns what the kind's part of the step script takes, for a grant that
	// reserves so many fencing tokens; nil for nothing.
	number func(n *Name, tokens uint64) string

	// layout says what the keys and channels are called.
	layout wire.Layout
	// fenced locks have tokens.
	fenced bool
	// foreign locks may be held by clients of Redisson.
	foreign bool
	// many owners hold the lock at once, each with a tenure and a room of its own.
	many bool
	// strict locks are granted in the order in which all waiters of all clients came: each
	// waiter has a ticket of its own, and the lock is never handed off inside a process.
	strict bool
}

// The kinds. Locks of one name and different kinds have rooms of their own: what
// one of them is in Redis decides whether they exclude each other.
const (
	PlainKind KindID = iota
	FencedKind
	ReadWriteKind
	FairKind
	SemaphoreKind
	KindCount
)

// A KindID is the place of a kind among the kinds.
type KindID uint8

var kinds = [KindCount]*kind{
	PlainKind:     &plain,
	FencedKind:    &fenced,
	ReadWriteKind: &readWrite,
	FairKind:      &fair,
	SemaphoreKind: &semaphore,
}

// but returns a kind that differs from k as change says.
func (k kind) but(change func(*kind)) kind {
	change(&k)
	return k
}

func (n *Name) kind() *kind { return kinds[n.KindID] }

// kindOf returns the kind of a lock as users see it.
func (n *Name) kindOf(shared bool) Kind {
	if shared {
		return KindRead
	}
	return n.kind().public
}
