package client

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/losses"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Name is a lock's name and the values that follow from it, computed once for a Lock.
type Name struct {
	wire.Keys
	KindID  KindID
	Hash    uint32 // of the key, the same for all kinds
	Permits int    // of a semaphore
	Err     error  // why no lock can have it: every call returns it
}

// NewName returns the name of a lock of the kind. It asks Redis nothing.
func (c *Client) NewName(id KindID, key string) *Name {
	n := &Name{KindID: id, Hash: c.HashOf(key)}
	n.Keys, n.Err = c.Redis.KeysOf(key, n.kind().layout, c.ID.Prefix)
	return n
}

// LossKey is what the losses know the owner by.
func (n *Name) LossKey(o terms.Owner) losses.Key {
	return losses.Key{Kind: uint8(n.KindID), Name: n.Key, Owner: o}
}

// HashOf returns the hash of a key, as in its names.
func (c *Client) HashOf(key string) uint32 { return uint32(maphash.String(c.seed, key)) }

// A kind is what one sort of lock is in Redis, for those that look.
type kind struct {
	// public is the kind as users see it. The read lock is another.
	public terms.Kind
	// layout says what the keys and channels are called.
	layout wire.Layout

	// holders asks Redis for the owners whose tenures an unlock by force has to release.
	holders func(ctx context.Context, l *Lock) ([]string, error)
	// locked asks Redis whether the lock is held, and ttl for how long.
	locked func(ctx context.Context, l *Lock) (bool, error)
	ttl    func(ctx context.Context, l *Lock) (time.Duration, error)
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

// plain is also what fenced and fair locks are in Redis.
var plain = kind{
	public:  terms.KindPlain,
	layout:  wire.Layout{Channel: "redisson_lock__channel:", Fair: true},
	holders: fields,
	locked:  keyExists,
	ttl:     keyTTL,
}

var kinds = [KindCount]kind{
	PlainKind:  plain,
	FencedKind: plain.as(terms.KindFenced, wire.Layout{Channel: plain.layout.Channel, Fair: true, Extra: "redisson_lock_token:", HasExtra: true}),
	FairKind:   plain.as(terms.KindFair, plain.layout),
	ReadWriteKind: {
		public:  terms.KindWrite,
		layout:  wire.Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
		holders: readersOrWriters,
		locked:  readOrWritten,
		ttl:     keyTTL,
	},
	SemaphoreKind: {
		public:  terms.KindSemaphore,
		layout:  wire.Layout{Channel: "rlock_turn:semaphore:", Suffix: "sem"},
		holders: permitHolders,
		locked:  allPermitsHeld,
		ttl:     firstPermitEnds,
	},
}

// as returns the kind by another name, with other keys.
func (k kind) as(public terms.Kind, layout wire.Layout) kind {
	k.public, k.layout = public, layout
	return k
}

func (n *Name) kind() *kind { return &kinds[n.KindID] }

// KindOf returns the kind of the lock as users see it.
func (n *Name) KindOf(shared bool) terms.Kind {
	if shared {
		return terms.KindRead
	}
	return n.kind().public
}
