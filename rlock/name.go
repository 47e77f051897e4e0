package rlock

import (
	"hash/maphash"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A name is a lock's name and what follows from it, computed once for a Lock.
type name struct {
	wire.Keys
	turn    string // the channel on which this client is told
	id      kindID // its kind
	room    string // what the room is known by: the key, and of a lock with many owners one of them
	shard   *shard // of the client, where the room is
	permits int    // of a semaphore
	err     error  // ErrInvalidName: every call returns it
}

func (n *name) kind() *kind { return &kinds[n.id] }

func (c *Client) newName(id kindID, key string) *name {
	n := &name{id: id, room: key, shard: c.shardOf(id, key)}
	n.Keys, n.err = c.redis.KeysOf(key, n.kind().layout)
	n.turn = n.Turns + c.id.Prefix
	return n
}

// step returns the call for a step in the lock's queue, with the lease and the number of
// fencing tokens that a grant is to have.
func (n *name) step(c *Client, s wire.Step, lease time.Duration, tokens uint64) wire.Call {
	k := n.kind()
	s.Lease, s.Guests = c.milliseconds(lease), k.foreign
	if k.number != nil {
		s.Number = k.number(n, tokens)
	}
	return c.redis.Step(k.step, &n.Keys, s)
}

func (c *Client) shardOf(id kindID, key string) *shard {
	return &c.shards[id][maphash.String(c.seed, key)%shardCount]
}

// nameFor returns the name with the room that o has its tenure in.
func (c *Client) nameFor(n *name, o Owner) *name {
	if !n.kind().many || n.err != nil {
		return n
	}
	return c.withRoom(n, o.String())
}

// nameForText is nameFor for an owner in Redis, "<uuid>:<id>".
func (c *Client) nameForText(n *name, owner string) *name {
	if !n.kind().many || len(owner) < wire.TenureLen {
		return n
	}
	return c.withRoom(n, owner[wire.TenureLen:])
}

func (c *Client) withRoom(n *name, owner string) *name {
	room := *n
	room.room = n.Key + "\x00" + owner
	room.shard = c.shardOf(n.id, room.room)
	return &room
}
