package rlock

import (
	"context"
	"strconv"
	"time"
)

// A Kind is the sort of a lock.
type Kind string

// The kinds of locks.
const (
	KindPlain     Kind = "plain"
	KindFenced    Kind = "fenced"
	KindFair      Kind = "fair"
	KindRead      Kind = "read"  // of a ReadWriteLock
	KindWrite     Kind = "write" // of a ReadWriteLock
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi" // made of other locks, see NewMultiLock
	KindRed       Kind = "red"   // made of locks on several servers, see NewRedLock

	// Redis tells less, see [Client.Inspect].

	KindUnknown   Kind = ""           // no holders and no waiters
	KindLock      Kind = "lock"       // a plain, a fenced or a fair lock: they look alike
	KindReadWrite Kind = "read-write" // a ReadWriteLock
)

// A kind is what one sort of lock is in Redis. The room, its queue, the tenure and
// the keeper are the same for all of them.
//
// Each of its calls can be sent again after a lost reply without changing the outcome.
type kind struct {
	// public is the kind as users see it. The read lock is another.
	public Kind
	// step is the script for all that touches the queue: the kind's part of it and
	// queue.lua.
	step *script
	// acquire is the call that takes a lock that nobody has or waits for. It is answered
	// as acquire.lua answers.
	acquire func(t *tenure) call
	// mirror is the call that makes Redis show the tenures of part, which are of one slot.
	// Its answer is an array of numbers, as mirror.lua's.
	mirror func(c *Client, part []sent) call
	// fields asks Redis for what holders needs to know.
	fields func(ctx context.Context, c *Client, n *name) ([]string, error)
	// holders returns the owners whose tenures an unlock by force has to release, by the
	// fields.
	holders func(fields []string, shared bool) []string
	// locked asks Redis whether anybody holds the lock, and ttl for how long.
	locked func(ctx context.Context, l *single) (bool, error)
	ttl    func(ctx context.Context, l *single) (time.Duration, error)

	// channel is the beginning of the name of the channel that Redisson listens to.
	channel string
	// extra is the beginning of the key that the kind has beside the lock, if it has one.
	extra string
	// layout ends the names of the queue and all that belongs to it: the locks of one name
	// that are told apart by it are different in Redis, and cannot grant to each other.
	layout string
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
	plainKind kindID = iota
	fencedKind
	readWriteKind
	fairKind
	semaphoreKind
	kindCount
)

type kindID uint8

var kinds = [kindCount]kind{
	plainKind: {
		public: KindPlain,
		step:   plainStep, acquire: acquirePlain, mirror: mirrorPlain, fields: fields, holders: allFields, locked: keyExists, ttl: keyTTL,
		foreign: true, channel: "redisson_lock__channel:",
	},
	fencedKind: {
		public: KindFenced,
		step:   plainStep, acquire: acquireFenced, mirror: mirrorPlain, fields: fields, holders: allFields, locked: keyExists, ttl: keyTTL,
		foreign: true, channel: "redisson_lock__channel:", extra: "redisson_lock_token:", fenced: true,
	},
	readWriteKind: {
		public: KindWrite,
		step:   readWriteStep, acquire: acquireReadWrite, mirror: mirrorReadWrite, fields: fields, holders: readersOrWriters, locked: readOrWritten, ttl: keyTTL,
		foreign: true, channel: "redisson_rwlock:", layout: "rw",
	},
	fairKind: {
		public: KindFair,
		step:   plainStep, acquire: acquirePlain, mirror: mirrorPlain, fields: fields, holders: allFields, locked: keyExists, ttl: keyTTL,
		foreign: true, channel: "redisson_lock__channel:", strict: true,
	},
	semaphoreKind: {
		public: KindSemaphore,
		step:   semaphoreStep, acquire: acquireSemaphore, mirror: mirrorSemaphore,
		fields: permitHolders, holders: allFields, locked: allPermitsHeld, ttl: firstPermitEnds,
		channel: "rlock_turn:semaphore:", layout: "sem", many: true, strict: true,
	},
}

// A plain lock is a hash of one owner and its count, as Redisson's RLock.

func acquirePlain(t *tenure) call {
	n := t.room.name
	return acquireScript.inline(3, n.key, n.queue, n.window, t.room.client.milliseconds(t.lease), t.text)
}

func mirrorPlain(c *Client, part []sent) call {
	keys := make([]string, 0, len(part))
	args := make([]string, 0, 1+5*len(part))
	args = append(args, c.family)
	for _, s := range part {
		keys = append(keys, s.tenure.room.name.key)
		queue, channel := s.asks()
		args = append(args, s.lease, s.owner, s.count, queue, channel)
	}
	return call{script: mirrorScript, keys: keys, args: args}
}

func allFields(fields []string, _ bool) []string { return fields }

// A fenced lock is a plain lock, and a counter beside it.
func acquireFenced(t *tenure) call {
	n := t.room.name
	return acquireScript.inline(4, n.key, n.queue, n.window, n.extra,
		t.room.client.milliseconds(t.lease), t.text, strconv.FormatUint(t.tokens.reserved, 10))
}
