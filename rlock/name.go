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
	tagged  string // by Redisson's rule: in braces unless it has one, for keys and channels of the same slot
	channel string
	tokens  string // the key of the fencing tokens' counter, "" for a lock without
	queue   string // the key of a fair lock's queue, "" for a lock without
	grants  string // what the channels begin with on which a fair lock is granted; likewise
	id      kindID // its kind
	slot    uint16 // of the key; 0 outside a Cluster
	shard   *shard // of the client, where the room is
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
	n.tagged = key
	if !strings.Contains(key, "{") {
		n.tagged = "{" + key + "}"
	}
	n.channel = n.kind().channel() + n.tagged
	if id == fencedKind {
		n.tokens = "redisson_lock_token:" + n.tagged
	}
	if id == fairKind {
		n.queue, n.grants = "rlock_fair_queue:"+n.tagged, "rlock_fair:"+n.tagged+":"
	}
	if c.redis.Mode() == rueidis.ClientModeCluster {
		n.slot = slotOf(c.redis, key)
		if n.slot != slotOf(c.redis, n.channel) || n.tokens != "" && n.slot != slotOf(c.redis, n.tokens) {
			n.err = fmt.Errorf("rlock: lock %q: %w: it has a brace but no hash tag, so that in a Cluster its channel has another slot: put the tag in both braces, as in \"{%s}\"",
				key, ErrInvalidName, strings.Trim(key, "{}"))
		}
	}
	return n
}

// slotOf asks the command builder, which routes by the same number.
func slotOf(redis rueidis.Client, key string) uint16 {
	cmd := redis.B().Exists().Key(key).Build()
	return cmd.Slot()
}
