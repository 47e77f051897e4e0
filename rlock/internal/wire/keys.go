package wire

import (
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// maxName is the longest name in bytes. Redis would take 512 MiB, and send them
// with every command.
const maxName = 64 << 10

// A Layout says what the keys and channels of one kind of lock are called.
type Layout struct {
	// Channel is the beginning of the name of the channel that Redisson listens to.
	Channel string
	// Extra is the beginning of the key that the kind has beside the lock; HasExtra says
	// that it has one.
	Extra    string
	HasExtra bool
	// Fair says that Redisson's fair lock may share the lock.
	Fair bool
	// Suffix ends the names of the queue and all that belongs to it: the locks of one name
	// that are told apart by it are different in Redis, and cannot grant to each other.
	Suffix string
}

// Keys are the keys and channels of one lock: see docs/protocol.md.
type Keys struct {
	Key     string // the lock's, and its name
	Slot    uint16 // of all of them; 0 outside a Cluster
	Channel string // Redisson's
	Extra   string // the key that the kind has beside the lock, "" for none

	// Of a lock that Redisson's fair lock may share, else "": its queue, and the times until which
	// it waits for each owner in it.
	FairQueue, FairTimes string

	// These are of our own: different for any two names, with the lock's hash tag.
	Queue   string // the key of the queue
	Foreign string // the key of the turns of foreign clients
	Turns   string // the beginning of the names of the channels on which clients are told
}

// Ushers is the channel that counts the clients of ours that listen to Channel.
func (k *Keys) Ushers() string { return k.Turns + "ushers" }

// KeysOf applies Redisson's prefixName to the channel, and makes the names of our own. It
// fails with ErrInvalidName for a name that no lock can have.
//
// The tag stands for the name in the keys and channels that Redisson does not share. It is in the
// slot of the name, and no other name has the same: by Redisson's rule alone "x" and "{x}" would
// share a queue and be granted each other's lock. If a brace is in the name the tag ends with a
// colon, else it ends with a brace.
func (r *Redis) KeysOf(key string, l Layout) (k Keys, err error) {
	k.Key = key
	switch {
	case key == "":
		return k, fmt.Errorf("rlock: %w: it is empty", ErrInvalidName)
	case len(key) > maxName:
		return k, fmt.Errorf("rlock: %w: it has %d bytes, more than %d", ErrInvalidName, len(key), maxName)
	}
	tagged := "{" + key + "}"
	tag := tagged
	if strings.Contains(key, "{") {
		tagged, tag = key, key+":"
	}
	k.Channel = l.Channel + tagged
	if l.HasExtra {
		k.Extra = l.Extra + tagged
	}
	if l.Fair {
		k.FairQueue, k.FairTimes = "redisson_lock_queue:"+tagged, "redisson_lock_timeout:"+tagged
	}
	tag += l.Suffix
	k.Queue, k.Foreign, k.Turns = "rlock_queue:"+tag, "rlock_foreign:"+tag, turnPrefix+tag+":"
	if r.InCluster() {
		k.Slot = r.slotOf(key)
		if k.Slot != r.slotOf(k.Channel) || k.Slot != r.slotOf(k.Queue) || k.Extra != "" && k.Slot != r.slotOf(k.Extra) {
			return k, fmt.Errorf("rlock: lock %q: %w: it has a brace but no hash tag, so that in a Cluster its channel has another slot: put the tag in both braces, as in \"{%s}\"",
				key, ErrInvalidName, strings.Trim(key, "{}"))
		}
	}
	return k, nil
}

// turnPrefix begins the names of all channels of our own.
const turnPrefix = "rlock_turn:"

// ClientChannel returns the name of the channel on which the client with that id is told of
// its tenures of any lock. It is plain in a Cluster too, since it has no slot: a script there
// may PUBLISH to any channel. No channel of a lock has that name, since the part behind the
// prefix contains a brace for every lock.
func ClientChannel(id string) string { return turnPrefix + "client:" + id }

// slotOf asks the command builder, which routes by the same number.
func (r *Redis) slotOf(key string) uint16 {
	cmd := r.Client.B().Exists().Key(key).Build()
	return cmd.Slot()
}

// Arbitrary is a command about one key that rueidis knows nothing of: see Survey.
func (r *Redis) Arbitrary(key string, words ...string) rueidis.Completed {
	return r.Client.B().Arbitrary(words[0]).Keys(key).Args(words[1:]...).Build()
}
