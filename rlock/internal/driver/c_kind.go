package driver

import (
	"hash/maphash"

	"github.com/go-rlock/rlock/internal/enum"
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
	n := &Name{KindID: id, Hash: c.hashOf(key)}
	n.Keys, n.Err = c.Redis.KeysOf(key, kinds[id].layout, c.ID.Prefix)
	return n
}

// lossKey is what the losses know the owner by.
func (n *Name) lossKey(o terms.Owner) losses.Key {
	return losses.Key{Kind: uint8(n.KindID), Name: n.Key, Owner: o}
}

// hashOf returns the hash of a key, as in its names.
func (c *Client) hashOf(key string) uint32 { return uint32(maphash.String(c.seed, key)) }

// The kinds. Locks of one name and different kinds have rooms of their own: what
// one of them is in Redis decides whether they exclude each other.
const (
	PlainKind KindID = iota
	FencedKind
	ReadWriteKind
	FairKind
	SemaphoreKind

	KindCount = iota // how many there are
)

// A KindID is the index of a kind among the kinds.
type KindID uint8

func (id KindID) String() string {
	return enum.Name(id, "KindID", "PlainKind", "FencedKind", "ReadWriteKind", "FairKind", "SemaphoreKind")
}

const plainChannel = "redisson_lock__channel:"

// KindOf returns the kind of the lock as users see it.
func (n *Name) KindOf(shared bool) terms.Kind {
	if shared {
		return terms.KindRead
	}
	return kinds[n.KindID].public
}
