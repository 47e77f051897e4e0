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
	shard   *shard // of the client, where the room is
	tagged  string // by Redisson's rule: in braces unless it has one, for keys and channels of the same slot
	channel string
	beside  string // a second key: a fenced lock's counter, a fair lock's queue, a writer's intent; "" for others
	grants  string // what the channels begin with on which a fair lock is granted; likewise
	err     error  // ErrInvalidName: every call returns it
}

func (n *name) kind() kind { return kinds[n.id] }

// newName applies Redisson's prefixName (redisson.md 0.1).
func (c *Client) newName(id kindID, key string) *name {
	n := &name{key: key, id: id, shard: &c.shards[id][maphash.String(c.seed, key)%shardCount]}
	switch {
	case key == "":
		n.err = fmt.Errorf("rlock: %w: it is empty", ErrInvalidName)
		return n
	case len(key) > maxName:
		n.err = fmt.Errorf("rlock: %w: it has %d bytes, more than %d", ErrInvalidName, len(key), maxName)
		return n
	}
	prefix := n.kind().channel()
	if strings.Contains(key, "{") {
		n.channel = prefix + key
	} else {
		n.channel = prefix + "{" + key + "}"
	}
	n.tagged = n.channel[len(prefix):]
	switch id {
	case fencedKind:
		n.beside = "redisson_lock_token:" + n.tagged
	case fairKind:
		n.beside, n.grants = "rlock_fair_queue:"+n.own(), "rlock_fair:"+n.own()+":"
	case readWriteKind:
		n.beside = n.own() + ":rlock_writer"
	}
	if c.redis.Mode() == rueidis.ClientModeCluster {
		n.slot = slotOf(c.redis, key)
		if n.slot != slotOf(c.redis, n.channel) || n.beside != "" && n.slot != slotOf(c.redis, n.beside) {
			n.err = fmt.Errorf("rlock: lock %q: %w: it has a brace but no hash tag, so that in a Cluster its channel has another slot: put the tag in both braces, as in \"{%s}\"",
				key, ErrInvalidName, strings.Trim(key, "{}"))
		}
	}
	return n
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
