package wire

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// TenureLen is the length of the part of an owner's text that stands for the tenure.
const TenureLen = uuidLen + 1

// Owner returns the text of an owner with the UUID of a new tenure.
func (id *ID) Owner(owner uint64) string { return string(id.Text(id.Number(), owner)) }

// CallOf returns the call of a command, or of several that share one.
func (r *Redis) CallOf(all ...*Exchange) Call { return r.callForAll(all) }

// Read returns what the reply says to the command.
func (r *Redis) Read(x *Exchange, reply rueidis.RedisResult) Answer { return readAnswer(r, x, reply) }

// ReadAll reads the reply to commands that share a call, and DoReplicated makes a call and WAIT.
func (r *Redis) ReadAll(all []*Exchange, reply rueidis.RedisResult) { r.readAll(all, reply) }

func (r *Redis) DoReplicated(ctx context.Context, x *Exchange) { r.doReplicated(ctx, x) }

// FaultOf says what an error means for a command, and OpenCheck returns what says whether an idle
// connection is still open.
var FaultOf, OpenCheck = faultOf, openCheck

// Scripts returns the scripts of the kind, the acquire of several apart.
func (k *Kind) Scripts() (acquire, resume, step, mirror *Script) {
	return k.acquire, k.resume, k.step, k.mirror
}

// Takeover returns the script of tickets that take the lock over.
func (k *Kind) Takeover() *Script { return k.takeover }

// LetThrough is the script that lets a ticket through.
var LetThrough = letThrough

// LetThroughCall returns the call that lets a ticket through.
func (r *Redis) LetThroughCall(k *Keys, ticket OwnerText, grace time.Duration, holders ...OwnerText) Call {
	return r.letThroughCall(k, ticket, grace, holders)
}

// Guard makes the guarded writes of the kind.
func (k *Kind) Guard() *Guard { return k.guard }

// Words returns the words of the call's command, with the hash of its script.
func (c Call) Words() []string {
	keys, args := c.split()
	words := append([]string{"EVALSHA", c.Script.sha, strconv.Itoa(len(keys))}, keys...)
	return append(words, args...)
}

// Text returns the Lua text of the script.
func (s *Script) Text() string { return s.text }

// HasDirect reports whether a lone caller has a connection of its own now.
func (r *Redis) HasDirect() bool { return r.direct.conn.Load() != nil && !r.direct.busy.Load() }

// ForgetAddresses lets no node be reached by its address, until the topology is read again.
func (n *Nodes) ForgetAddresses() {
	t := *n.topology.Load()
	t.addresses = make([]string, len(t.addresses))
	n.topology.Store(&t)
}
