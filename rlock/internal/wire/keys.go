package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// MaxName is the largest length of a name in bytes. Redis would accept 512 MiB, and each command
// would send them all.
const MaxName = 64 << 10

// A Layout has the names of the keys and channels of one kind of lock.
type Layout struct {
	// Channel begins the name of the channel that Redisson listens to.
	Channel string
	// Extra begins the name of the key that the kind has beside the lock, if HasExtra is set.
	Extra    string
	HasExtra bool
	// Fair is set if Redisson's fair lock may share the lock.
	Fair bool
	// Suffix ends the names of the queue and its companions, so that locks of one name and of
	// different suffixes do not grant to each other.
	Suffix string
}

// Keys are the keys and channels of one lock: see docs/protocol.md. A client may have a hundred
// thousand Keys, so all names of a lock are parts of one string.
type Keys struct {
	Key  string // the key of the lock, which is its name
	text string // the names, one after the other, and the id of the client
	ends [nameCount]uint32
	Slot uint16 // the hash slot of all keys; 0 if the client knew that there is no Cluster
	torn bool   // the keys have different slots, so that the lock cannot be in a Cluster
}

// The names in text, in their order.
const (
	channelName = iota
	extraName
	fairQueueName
	fairTimesName
	queueName
	foreignName
	grantsName
	nameCount
)

// Channel returns the channel of Redisson's clients.
func (k *Keys) Channel() string { return k.name(channelName) }

// Extra returns the key that the kind has beside the lock, or "".
func (k *Keys) Extra() string { return k.name(extraName) }

// FairQueue and FairTimes return the keys of Redisson's fair lock: its queue, and the times at
// which each owner in the queue is dropped; "" for a kind that the fair lock cannot share.
func (k *Keys) FairQueue() string { return k.name(fairQueueName) }
func (k *Keys) FairTimes() string { return k.name(fairTimesName) }

// Queue and Foreign return the keys of the queue and of the windows of foreign clients. These keys,
// and the channels that follow, are rlock's own: they differ for any two names, and have the lock's
// hash tag.
func (k *Keys) Queue() string   { return k.name(queueName) }
func (k *Keys) Foreign() string { return k.name(foreignName) }

// GrantChannels returns the beginning of the names of the channels on which clients hear of their
// grants, and GrantChannel the channel of this client.
func (k *Keys) GrantChannels() string { return k.name(grantsName) }
func (k *Keys) GrantChannel() string  { return k.text[k.ends[grantsName-1]:] }

// LockOfQueue returns the name of the lock with that queue. It reports false for any other key.
func LockOfQueue(key string) (name string, ok bool) {
	tag, ok := strings.CutPrefix(key, queuePrefix)
	for _, suffix := range []string{ReadWrite.Layout.Suffix, Semaphore.Layout.Suffix} {
		tag = strings.TrimSuffix(tag, suffix)
	}
	n := len(tag) - 1
	switch {
	case !ok || n < 1:
		return "", false
	case tag[n] == ':':
		return tag[:n], true
	}
	return tag[1:n], tag[0] == '{' && tag[n] == '}'
}

// Ushers returns the channel by whose subscribers Redis counts the clients of rlock that listen to
// Channel.
func (k *Keys) Ushers() string { return k.GrantChannels() + "ushers" }

// names returns all names, by their constants.
func (k *Keys) names() (all [nameCount]string) {
	at := uint32(0)
	for n, end := range k.ends {
		all[n], at = k.text[at:end], end
	}
	return all
}

func (k *Keys) name(n int) string {
	if n == 0 {
		return k.text[:k.ends[0]]
	}
	return k.text[k.ends[n-1]:k.ends[n]]
}

// CheckLength returns ErrInvalidName for a name that is empty or too long.
func CheckLength(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalidName, len(name), MaxName)
	}
	return nil
}

// KeysOf returns the keys of a lock for the client with that id. Redisson's prefixName makes the
// same channel. KeysOf fails with ErrInvalidName for a name that no lock can have.
//
// In the names that are rlock's own a tag stands for the lock's name. The tag has the slot of the
// name, and no other name has it: by Redisson's rule "x" and "{x}" would share a queue, and be
// granted each other's lock. The tag of a name with an opening brace ends with a colon, any other
// with a closing brace.
func (r *Redis) KeysOf(key string, l Layout, client string) (k Keys, err error) {
	k.Key = key
	if err := CheckLength(key); err != nil {
		return k, fmt.Errorf("rlock: %w", err)
	}
	tagged := "{" + key + "}"
	tag := tagged
	if strings.Contains(key, "{") {
		tagged, tag = key, key+":"
	}
	words := [nameCount][4]string{
		channelName: {l.Channel, tagged},
		queueName:   {queuePrefix, tag, l.Suffix},
		foreignName: {"rlock_foreign:", tag, l.Suffix},
		grantsName:  {grantPrefix, tag, l.Suffix, ":"},
	}
	if l.HasExtra {
		words[extraName] = [4]string{l.Extra, tagged}
	}
	if l.Fair {
		words[fairQueueName], words[fairTimesName] = [4]string{"redisson_lock_queue:", tagged}, [4]string{"redisson_lock_timeout:", tagged}
	}
	text := make([]byte, 0, 512)
	for n := range words {
		for _, word := range words[n] {
			text = append(text, word...)
		}
		k.ends[n] = uint32(len(text))
	}
	k.text = string(append(text, client...))
	k.Key = k.text[strings.Index(k.text, key):][:len(key)] // keeps no reference to the caller's string
	if !r.hasConnected() || r.cluster {
		k.Slot = HashSlot(key)
		k.torn = k.Slot != HashSlot(k.Channel()) || k.Slot != HashSlot(k.Queue()) || l.HasExtra && k.Slot != HashSlot(k.Extra())
		if k.torn && r.InCluster() {
			return k, fmt.Errorf("rlock: lock %q: %w", key, k.tornError())
		}
	}
	return k, nil
}

// tornError returns the error for keys with different slots.
func (k *Keys) tornError() error {
	return fmt.Errorf("%w: it has a brace but no hash tag, so that in a Cluster its channel has another slot: choose a name without braces, or with a tag in both, as in \"{%s}\"",
		ErrInvalidName, cmp.Or(strings.NewReplacer("{", "", "}", "").Replace(k.Key), "tag"))
}

// grantPrefix begins the names of all channels of rlock, and queuePrefix those of all queues.
const (
	grantPrefix = "rlock_grants:"
	queuePrefix = "rlock_queue:"
)

// ClientChannel returns the channel on which the client with that id is notified of its tenures of
// any lock. It is plain in a Cluster too, since it has no slot: a script there may PUBLISH to any
// channel. No lock has a channel of that name: the channels of locks have a brace behind the
// prefix.
func ClientChannel(id string) string { return grantPrefix + "client:" + id }

// Arbitrary returns a command about one key that rueidis does not recognize: see Survey.
func (r *Redis) Arbitrary(key string, words ...string) rueidis.Completed {
	return r.Client.B().Arbitrary(words[0]).Keys(key).Args(words[1:]...).Build()
}

// Beside returns a key in the slot of the lock with the given key, which differs for any two locks:
// without the second colon "x" and "{x}" would have the same key.
func Beside(key, name string) string {
	if strings.Contains(key, "{") {
		return key + "::" + name
	}
	return "{" + key + "}:" + name
}

// tagOf returns the part of a key that decides its slot.
func tagOf(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// Literal returns the pattern of Redis' KEYS that matches the text alone.
func Literal(text string) string { return literal.Replace(text) }

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// CheckKeys returns an error if a guarded write must not have one of the keys: a key of a lock, or,
// in a Cluster, a key in another slot than the lock.
func (r *Redis) CheckKeys(k *Keys, keys []string) error {
	for _, key := range keys {
		own := slices.Contains([]string{k.Key, k.Extra(), k.FairQueue(), k.FairTimes()}, key) ||
			strings.HasPrefix(key, queuePrefix) || strings.HasPrefix(key, "rlock_foreign:") || strings.Contains(key, ":rwlock_timeout:")
		switch {
		case key == "":
			return fmt.Errorf("%w: a key is empty", ErrInvalidName)
		case own:
			return fmt.Errorf("%w: the key %q is one of a lock", ErrInvalidName, key)
		case r.InCluster() && HashSlot(key) != k.Slot:
			return fmt.Errorf("%w: the key %q has another slot than the lock: give it the lock's hash tag, as in %q, or, if it exists, name the lock after it, as in %q", ErrInvalidName, key, Beside(k.Key, key), "lock:{"+tagOf(key)+"}")
		}
	}
	return nil
}

// HashSlot returns the slot of a key in a Cluster: CRC-16 (XMODEM) of its tag, by the Cluster
// specification. rueidis' builder computes the same slot, but a lazy client has no builder before
// it connects.
func HashSlot(key string) (slot uint16) {
	tag := tagOf(key)
	for i := range len(tag) {
		slot ^= uint16(tag[i]) << 8
		for range 8 {
			high := slot & 0x8000
			if slot <<= 1; high != 0 {
				slot ^= 0x1021
			}
		}
	}
	return slot % slots
}
