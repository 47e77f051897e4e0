package client

import (
	"hash/maphash"

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
