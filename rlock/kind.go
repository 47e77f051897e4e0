package rlock

// A kind is what one sort of lock is in Redis. The room, its queue, the tenure and
// the keeper are the same for all of them.
//
// Each call can be sent again after a lost reply without changing the outcome.
type kind interface {
	// acquire is the call that the tenure begins with. It is answered as acquire.lua
	// answers, or fair.lua.
	acquire(t *tenure, n news) call
	// mirror makes Redis show the tenures of part, which are of one slot. Its
	// answer is an array of numbers, as mirror.lua's.
	mirror(c *Client, part []sent) call
	// release ends the tenure that owner's text is of: more than 0, or 0 if Redis
	// has it not.
	release(c *Client, n *name, owner string, news news) call
	// channel is what the name of its channel begins with.
	channel() string
	// holders returns who has the lock, by the fields of its hash: the owners whose
	// tenures an unlock by force has to release.
	holders(fields []string, shared bool) []string
}

// The kinds. Locks of one name and different kinds have rooms of their own: what
// one of them is in Redis decides whether they exclude each other.
const (
	plainKind kindID = iota
	fencedKind
	readWriteKind
	fairKind
	kindCount
)

type kindID uint8

var kinds = [kindCount]kind{plainKind: plain{}, fencedKind: fenced{}, readWriteKind: readWrite{}, fairKind: fair{}}

// plain is the kind of [Lock]: a hash of one owner and its count, as Redisson's
// RLock.
type plain struct{}

func (plain) acquire(t *tenure, _ news) call {
	return acquireScript.brief(1, t.room.name.key, t.room.client.milliseconds(t.lease), t.text)
}

func (plain) mirror(c *Client, part []sent) call {
	keys := make([]string, 0, len(part))
	args := make([]string, 0, 1+4*len(part))
	args = append(args, c.numsub)
	for _, s := range part {
		keys = append(keys, s.tenure.room.name.key)
		args = append(args, s.lease, s.owner, s.count, s.channel)
	}
	return call{script: mirrorScript, keys: keys, args: args}
}

// release frees the lock as long as it is this tenure's, whoever of its owners
// Redis shows.
func (plain) release(c *Client, n *name, owner string, _ news) call {
	return releaseScript.brief(2, n.key, n.channel, owner, c.publish)
}

func (plain) channel() string { return "redisson_lock__channel:" }

func (plain) holders(fields []string, _ bool) []string { return fields }
