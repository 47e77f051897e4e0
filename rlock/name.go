package rlock

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/redis/rueidis"
)

// maxName is the longest name in bytes. Redis would take 512 MiB, and send them
// with every command.
const maxName = 64 << 10

// A name is a lock's name and what follows from it, computed once for a Lock.
type name struct {
	key     string
	id      kindID // its kind
	slot    uint16 // of the key; 0 outside a Cluster
	room    string // what the room is known by: the key, and of a lock with many owners one of them
	shard   *shard // of the client, where the room is
	permits int    // of a semaphore
	tagged  string // by Redisson's rule: in braces unless it has one, for keys and channels of the same slot
	channel string
	extra   string // the key that the kind has beside the lock, "" for none

	// These are of our own: different for any two names, with the lock's hash tag.
	queue  string // the key of the queue
	window string // the key that exists during the guests' turn
	turns  string // the beginning of the names of the channels on which clients are told
	turn   string // this client's

	err error // ErrInvalidName: every call returns it
}

func (n *name) kind() *kind { return &kinds[n.id] }

// newName applies Redisson's prefixName to the channel, and makes the names of our own:
// see docs/protocol.md.
func (c *Client) newName(id kindID, key string) *name {
	n := &name{key: key, id: id, room: key, shard: c.shardOf(id, key)}
	switch {
	case key == "":
		n.err = fmt.Errorf("rlock: %w: it is empty", ErrInvalidName)
		return n
	case len(key) > maxName:
		n.err = fmt.Errorf("rlock: %w: it has %d bytes, more than %d", ErrInvalidName, len(key), maxName)
		return n
	}
	prefix := n.kind().channel
	if strings.Contains(key, "{") {
		n.channel = prefix + key
	} else {
		n.channel = prefix + "{" + key + "}"
	}
	n.tagged = n.channel[len(prefix):]
	switch {
	case n.kind().extra != "":
		n.extra = n.kind().extra + n.tagged
	case n.id == readWriteKind:
		n.extra = n.tagged
	}
	tag := n.own() + n.kind().layout
	n.queue, n.window, n.turns = "rlock_queue:"+tag, "rlock_guests:"+tag, "rlock_turn:"+tag+":"
	n.turn = n.turns + c.id.prefix
	if c.redis.Mode() == rueidis.ClientModeCluster {
		n.slot = slotOf(c.redis, key)
		if n.slot != slotOf(c.redis, n.channel) || n.slot != slotOf(c.redis, n.queue) || n.extra != "" && n.slot != slotOf(c.redis, n.extra) {
			n.err = fmt.Errorf("rlock: lock %q: %w: it has a brace but no hash tag, so that in a Cluster its channel has another slot: put the tag in both braces, as in \"{%s}\"",
				key, ErrInvalidName, strings.Trim(key, "{}"))
		}
	}
	return n
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
	if !n.kind().many || len(owner) < tenureLen {
		return n
	}
	return c.withRoom(n, owner[tenureLen:])
}

func (c *Client) withRoom(n *name, owner string) *name {
	room := *n
	room.room = n.key + "\x00" + owner
	room.shard = c.shardOf(n.id, room.room)
	return &room
}

// own returns what stands for the name in keys and channels that Redisson does not
// share. It is in the slot of the name, and no other name has the same: by Redisson's
// rule alone "x" and "{x}" would share a queue and be granted each other's lock. If a
// brace is in the name it ends with a colon, else it ends with a brace.
func (n *name) own() string {
	if n.tagged == n.key {
		return n.key + ":"
	}
	return n.tagged
}

// slotOf asks the command builder, which routes by the same number.
func slotOf(redis rueidis.Client, key string) uint16 {
	cmd := redis.B().Exists().Key(key).Build()
	return cmd.Slot()
}
