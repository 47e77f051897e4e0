package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Kind is the sort of a lock, as users see it.
type Kind string

// The kinds of locks.
const (
	KindPlain     Kind = "plain"
	KindFenced    Kind = "fenced"
	KindFair      Kind = "fair"
	KindRead      Kind = "read"
	KindWrite     Kind = "write"
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi"
	KindRed       Kind = "red"
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
	step *wire.Script
	// acquire is the call that takes a lock that nobody has or waits for. It is answered
	// as acquire.lua answers.
	acquire func(t *tenure) wire.Call
	// mirror is the call that makes Redis show the tenures of part, which are of one slot.
	// Its answer is an array of numbers, as mirror.lua's.
	mirror func(c *Client, part []sent) wire.Call
	// fields asks Redis for what holders needs to know.
	fields func(ctx context.Context, c *Client, n *Name) ([]string, error)
	// holders returns the owners whose tenures an unlock by force has to release, by the
	// fields.
	holders func(fields []string, shared bool) []string
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

type KindID uint8

// lockChannel begins the channel of Redisson's RLock.
const lockChannel = "redisson_lock__channel:"

var kinds = [KindCount]kind{
	PlainKind: {
		public: KindPlain,
		step:   wire.PlainStep, acquire: acquirePlain, mirror: mirrorPlain, fields: fields, holders: allFields, locked: keyExists, ttl: keyTTL,
		foreign: true, layout: wire.Layout{Channel: lockChannel},
	},
	FencedKind: {
		public: KindFenced,
		step:   wire.PlainStep, acquire: acquireFenced, mirror: mirrorPlain, fields: fields, holders: allFields, locked: keyExists, ttl: keyTTL,
		foreign: true, layout: wire.Layout{Channel: lockChannel, Extra: "redisson_lock_token:", HasExtra: true}, fenced: true, number: tokensReserved,
	},
	ReadWriteKind: {
		public: KindWrite,
		step:   wire.ReadWriteStep, acquire: acquireReadWrite, mirror: mirrorReadWrite, fields: fields, holders: readersOrWriters, locked: readOrWritten, ttl: keyTTL,
		foreign: true, layout: wire.Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
	},
	FairKind: {
		public: KindFair,
		step:   wire.PlainStep, acquire: acquirePlain, mirror: mirrorPlain, fields: fields, holders: allFields, locked: keyExists, ttl: keyTTL,
		foreign: true, layout: wire.Layout{Channel: lockChannel}, strict: true,
	},
	SemaphoreKind: {
		public: KindSemaphore,
		step:   wire.SemaphoreStep, acquire: acquireSemaphore, mirror: mirrorSemaphore,
		fields: permitHolders, holders: allFields, locked: allPermitsHeld, ttl: firstPermitEnds,
		layout: wire.Layout{Channel: "rlock_turn:semaphore:", Suffix: "sem"}, many: true, strict: true, number: permitsOfLock,
	},
}

// A plain lock is a hash of one owner and its count, as Redisson's RLock.

func acquirePlain(t *tenure) wire.Call {
	n := t.room.name
	return wire.Acquire.Call(3, n.Key, n.Queue, n.Window, t.room.client.milliseconds(t.lease), t.text)
}

func mirrorPlain(c *Client, part []sent) wire.Call {
	keys := make([]string, 0, len(part))
	args := make([]string, 0, 1+5*len(part))
	args = append(args, c.Redis.Family())
	for _, s := range part {
		keys = append(keys, s.tenure.room.name.Key)
		queue, channel := s.asks()
		args = append(args, s.lease, s.owner, s.count, queue, channel)
	}
	return wire.Call{Script: wire.Mirror, Keys: keys, Args: args}
}

func allFields(fields []string, _ bool) []string { return fields }

// A fenced lock is a plain lock, and a counter beside it.
func acquireFenced(t *tenure) wire.Call {
	n := t.room.name
	return wire.Acquire.Call(4, n.Key, n.Queue, n.Window, n.Extra,
		t.room.client.milliseconds(t.lease), t.text, strconv.FormatUint(t.tokens.reserved, 10))
}

func tokensReserved(_ *Name, tokens uint64) string { return strconv.FormatUint(max(tokens, 1), 10) }

// fields returns those of the lock's hash, none if nobody has it.
func fields(ctx context.Context, c *Client, n *Name) ([]string, error) {
	return look(ctx, c, n, rueidis.RedisResult.AsStrSlice, "HKEYS")
}

// look sends a command that changes nothing about the lock's key, and decodes the reply.
func look[T any](ctx context.Context, c *Client, n *Name, decode func(rueidis.RedisResult) (T, error), command ...string) (reply T, err error) {
	if n.Err != nil {
		return reply, n.Err
	}
	return wire.Look(ctx, c.Redis, &n.Keys, decode, command...)
}
