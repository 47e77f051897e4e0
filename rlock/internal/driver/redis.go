package driver

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// redis is the carrier of a client: package wire, and the hub for the messages.
type redis struct {
	*wire.Redis
	courier
	hub *pubsub.Hub
}

func (r *redis) traits() traits {
	return traits{patience: r.Patience(), replicated: r.SyncReplicas() > 0, cluster: r.InCluster(), tracks: r.Tracks()}
}

func (r *redis) abandonable() bool    { return r.Connected() && r.Ordered() }
func (r *redis) hears(n *Name) bool   { return r.hub.Confirmed(n.GrantChannel()) }
func (r *redis) group(n *Name) uint32 { return r.Nodes.Of(n.Slot) }

func (r *redis) refresh(now time.Time, trouble bool) { r.Nodes.Refresh(now, trouble) }

// do sends one command in the goroutine of its caller.
func (r *redis) do(ctx context.Context, c *exchange) (a answer) {
	if err := r.Ready(ctx, &c.name.Keys); err != nil {
		return r.read(c, wire.Answer{}, err)
	}
	switch {
	case c.cmd.Carries:
		return r.carryOut(ctx, c)
	case c.cmd.Op == core.Write:
		return r.write(ctx, c)
	case c.work == nil:
		return r.force(ctx, c)
	}
	if c.cmd.Op == core.Mirror { // that passes the lock on
		r.doAll(ctx, []*exchange{c})
		return c.answer
	}
	command := r.command(c)
	if r.SyncReplicas() > 0 && (c.cmd.Op == core.Acquire || c.cmd.Op == core.Resume || c.cmd.Op == core.Look) {
		got, err := r.DoReplicated(ctx, command, time.Duration(c.cmd.Lease), func(result rueidis.RedisResult) (wire.Answer, error) {
			return readAnswer(result, &c.cmd)
		}, r.release(c))
		return r.read(c, got, err)
	}
	result, sent := r.sendBuilt(ctx, c, command)
	a = r.readResult(c, result)
	a.sent = sent
	return a
}

// sendBuilt sends the call of a command. One with a source of the user's is built and sent once more if it was refused, before it
// was executed, since the client has no right to the keys of Redisson's fair queue: the call does not know which these are.
func (r *redis) sendBuilt(ctx context.Context, c *exchange, command wire.Call) (rueidis.RedisResult, wire.Sent) {
	order := wire.Order{Call: command, Slot: c.name.Slot, First: c.first, At: r.client.clock.time(c.at)}
	result, sent := r.Send(ctx, order)
	if (c.unless != nil || c.cmd.Carries) && r.WithoutFair(result.Error()) {
		order.First = false
		if order.Call = r.command(c); c.cmd.Carries {
			order.Call = r.carrying(c, &order.Call)
		}
		result, sent = r.Send(ctx, order)
	}
	return result, sent
}

// together is how many mirrors, or acquires of a row, share one call of the script. Alone, most of what a mirror costs is
// the call. Redis serves no other command during a call, here for some 50 us.
const together = 32

// doAll sends one pipeline: a call for each command, and one for mirrors, or acquires of a row, of one kind and slot, at
// most so many.
func (r *redis) doAll(ctx context.Context, all []*exchange) {
	if r.IsLate() {
		all = r.ready(ctx, all)
	}
	r.pipeline(ctx, all, together)
}

// ready returns the commands that can be sent. The others have their answers.
func (r *redis) ready(ctx context.Context, all []*exchange) (ready []*exchange) {
	for _, c := range all {
		if err := r.Ready(ctx, &c.name.Keys); err != nil {
			c.answer = r.read(c, wire.Answer{}, err)
		} else {
			ready = append(ready, c)
		}
	}
	return ready
}

func (r *redis) pipeline(ctx context.Context, all []*exchange, together int) {
	byGroup := func(a, b *exchange) int { return a.group() - b.group() }
	if !slices.IsSortedFunc(all, byGroup) {
		slices.SortStableFunc(all, byGroup)
	}
	var commands []wire.Call
	var parts [][]*exchange
	for rest := all; len(rest) > 0; {
		n := 1
		for n < min(len(rest), together) && rest[n].sharesWith(rest[0]) {
			n++
		}
		if first := rest[0]; first.cmd.Op == core.Unmark {
			first.answer = r.unmark(ctx, first)
		} else {
			commands, parts = append(commands, r.commandFor(rest[:n])), append(parts, rest[:n])
		}
		rest = rest[n:]
	}
	if len(commands) == 0 {
		return
	}
	results, sent := r.DoAll(ctx, commands)
	for i, result := range results {
		if err := result.Error(); err != nil && wire.Answered(err) && (len(parts[i]) > 1 || parts[i][0].cmd.Op == core.Mirror && r.WithoutFair(err)) {
			// One lock may be to blame: a key of another type, a name that the ACL excludes, a proxy that
			// knows of slots where this client does not. Or a key that a mirror can do without.
			r.pipeline(ctx, parts[i], 1)
			continue
		}
		r.fillIn(parts[i], result)
		for _, c := range parts[i] {
			c.answer.sent = sent
		}
	}
}

// sharesWith reports whether both commands may be in one call.
func (c *exchange) sharesWith(other *exchange) bool {
	if c.cmd.Op != other.cmd.Op || c.group() != other.group() {
		return false
	}
	return c.cmd.Op == core.Mirror || c.cmd.Op == core.Acquire && c.row != nil && c.row == other.row
}

// group is the same for commands that may share a call.
func (c *exchange) group() int { return int(c.name.Slot)<<8 | int(c.name.KindID) }

func (r *redis) unmark(ctx context.Context, c *exchange) (a answer) {
	a.err = r.Unmark(ctx, &c.name.Keys, c.text)
	a.heard = wire.Answered(a.err)
	if a.err != nil {
		a.Fault = core.NotRun
	}
	return a
}

// force releases the holder in Redis, and tells its client if that is another of rlock.
func (r *redis) force(ctx context.Context, x *exchange) (a answer) {
	c, n := r.client, x.name
	s := wire.Step{Lease: "1", Number: number(&x.cmd), Leave: wire.Member{Mode: "x", Ticket: x.text}}
	s.Polls = x.kind.foreign && c.seesStep(n, s, time.Now())
	call := r.Step(x.kind.step, &n.Keys, s)
	var left int64
	if !wire.IsOurs(x.text) || strings.HasPrefix(x.text, c.ID.Prefix) || c.Config.NoClientChannel {
		left, a.err = r.Do(ctx, call).AsInt64()
	} else {
		left, a.err = r.DoAndTell(ctx, call, wire.ClientMessage{Verb: wire.Forced, Owner: x.text, Text: n.Key}).AsInt64()
	}
	if a.heard, a.Left = wire.Answered(a.err), left > 0; a.err != nil {
		a.Fault = core.Unknown
	}
	return a
}

// write sends a guarded write. The answer of a server decides, also if it is an error: then a source was executed in part,
// or not at all, and will not be.
func (r *redis) write(ctx context.Context, c *exchange) (a answer) {
	g := c.kind.guard(c)
	result, sent := r.Send(ctx, wire.Order{Call: g.call(c.write), Slot: c.name.Slot, First: c.first, At: r.client.clock.time(c.at)})
	if a.sent = sent; sent.IsLate() {
		sent.GiveUp()
		a.sent = wire.Sent{}
	}
	c.write.reply, a.err = result.ToMessage()
	if rueidis.IsRedisNil(a.err) {
		a.err = nil
	}
	a.Found = core.Holds
	switch a.heard = wire.Answered(a.err); {
	case wire.Fenced(a.err, c.write.nonce):
		a.Found = core.Nowhere
	case a.heard:
	default:
		a.Fault = faultOf(core.Write, a.err)
	}
	return a
}

// carryOut sends a release that carries a guarded write.
func (r *redis) carryOut(ctx context.Context, c *exchange) (a answer) {
	w, step := c.write, r.command(c)
	result, sent := r.sendBuilt(ctx, c, r.carrying(c, &step))
	ran, reply, got, err := wire.ReadCarrier(result, c.joins != "", c.cmd.Tokens)
	a = r.read(c, got, err)
	a.sent = sent
	switch refusal := reply.Error(); {
	case ran:
		w.fate, w.reply = writeRan, reply
	case result.Error() != nil && a.heard && a.Fault == core.NotRun:
		w.fate, w.err = writeRefused, result.Error()
	case refusal == nil: // there is no answer, or none that can be read
	case wire.Fenced(refusal, w.nonce):
		w.fate = writeFenced
	default:
		w.fate, w.err = writeRefused, refusal
	}
	return a
}
