package engine

import (
	"hash/maphash"
	"iter"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Name is a lock's name and what follows from it, computed once for a Lock.
type Name struct {
	wire.Keys
	turn    string // the channel on which this client is told
	KindID  KindID // its kind
	Hash    uint64 // of the key, the same for all kinds
	room    string // what the room is known by: the key, and of a lock with many owners one of them
	shard   *shard // of the client, where the room is
	permits int    // of a semaphore
	Err     error  // why no lock can have it: every call returns it
}

// NewName returns the name of a lock of the kind. It asks Redis nothing.
func (c *Client) NewName(id KindID, key string) *Name {
	n := &Name{KindID: id, Hash: c.HashOf(key), room: key, shard: c.shardOf(id, key)}
	n.Keys, n.Err = c.Redis.KeysOf(key, n.kind().layout)
	n.turn = n.Turns + c.ID.Prefix
	return n
}

// lossKey is what the losses know the owner by.
func (n *Name) lossKey(o Owner) LossKey { return LossKey{n.KindID, n.Key, o} }

// step returns the call for a step in the lock's queue, with the lease and the number of
// fencing tokens that a grant is to have.
func (n *Name) step(c *Client, s wire.Step, lease time.Duration, tokens uint64) wire.Call {
	k := n.kind()
	s.Lease = c.milliseconds(lease)
	s.Polls = c.seesStep(n, s, time.Now())
	if k.number != nil {
		s.Number = k.number(n, tokens)
	}
	return c.Redis.Step(k.step, &n.Keys, s)
}

// HashOf returns the hash of a key, as in its names.
func (c *Client) HashOf(key string) uint64 { return maphash.String(c.seed, key) }

func (c *Client) shardOf(id KindID, key string) *shard {
	return &c.shards[id][maphash.String(c.seed, key)%shardCount]
}

// nameFor returns the name with the room that o has its tenure in.
func (c *Client) nameFor(n *Name, o Owner) *Name {
	if !n.kind().many || n.Err != nil {
		return n
	}
	return c.withRoom(n, o.String())
}

// nameForText is nameFor for an owner in Redis, "<uuid>:<id>".
func (c *Client) nameForText(n *Name, owner string) *Name {
	if !n.kind().many || len(owner) < wire.TenureLen {
		return n
	}
	return c.withRoom(n, owner[wire.TenureLen:])
}

// roomsFor returns the rooms of the locks of that name, of all kinds. A lock with many owners
// has that of the owner in Redis, none for "". The loop has entered the room.
func (c *Client) roomsFor(key, owner string) iter.Seq[*room] {
	return func(yield func(*room) bool) {
		for id := range kinds {
			n := &Name{Keys: wire.Keys{Key: key}, KindID: KindID(id), room: key, shard: c.shardOf(KindID(id), key)}
			r := c.enterIfAny(c.nameForText(n, owner))
			if r == nil {
				continue
			}
			more := yield(r)
			r.exit()
			if !more {
				return
			}
		}
	}
}

func (c *Client) withRoom(n *Name, owner string) *Name {
	room := *n
	room.room = n.Key + "\x00" + owner
	room.shard = c.shardOf(n.KindID, room.room)
	return &room
}
