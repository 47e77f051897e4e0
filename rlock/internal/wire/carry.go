package wire

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Carry sends a command in the goroutine of its caller, and fills in the answer. If ctx ends first,
// the answer is an error.
func (r *Redis) Carry(ctx context.Context, x *Exchange) {
	if err := r.Ready(ctx, x.Keys); err != nil {
		x.Answer = x.failedAnswer(err)
		return
	}
	op := x.Cmd.Op
	if op == core.Mirror || op == core.Unmark {
		r.carryPipeline(ctx, []*Exchange{x}, 1)
		return
	}
	x.Cmd.Polling = r.noteWant(x)
	if x.takesOver() && (x.Ends != "" || len(x.Tells) > 0) {
		defer r.tellHolders(ctx, x)
	}
	switch {
	case op == core.Leave && x.Cmd.Tenure == nil:
		r.sendForce(ctx, x)
		return
	case r.options.SyncReplicas > 0 && (op == core.Acquire || op == core.Resume || op == core.Look):
		r.doReplicated(ctx, x)
		return
	}
	order := Order{Call: r.callFor(x), Slot: x.Keys.Slot, First: x.First, At: x.At, HasSource: op == core.Write || x.Cmd.Carries || x.Unless != nil}
	result, sent := r.Send(ctx, order)
	// The call of a command with a source of the user does not know which of its keys belong to
	// Redisson's fair queue. If the server refused them, the command is built again without these
	// keys.
	if (x.Unless != nil || x.Cmd.Carries) && r.learnNoFair(result.Error()) {
		order.Call, order.First = r.callFor(x), false
		result, sent = r.Send(ctx, order)
	}
	switch {
	case op == core.Write:
		if x.Answer = x.readWrite(result); sent.IsLate() { // the caller has left
			sent.GiveUp()
			sent = Sent{}
		}
	case x.Cmd.Carries:
		x.Answer = r.readCarrier(x, result)
	default:
		x.Answer = readAnswer(r, x, result)
	}
	x.Answer.Sent = sent
}

// sendForce releases the holder in Redis, and notifies its client if that is another client of
// rlock.
func (r *Redis) sendForce(ctx context.Context, x *Exchange) {
	call, result := r.stepCall(x), rueidis.RedisResult{}
	if !x.Text.IsOurs() || x.Text.ClientID() == r.prefix || r.options.NoClientChannel {
		result = r.Do(ctx, call)
	} else {
		result = r.DoAndTell(ctx, call, ClientMessage{Verb: Forced, Owner: x.Text, Text: x.Keys.Key})
	}
	left, err := result.AsInt64()
	x.Answer = Answer{Reply: core.Reply{Left: left > 0}, Err: err, Heard: Answered(err), Before: -1}
	if err != nil {
		x.Answer.Fault = core.Unknown
	}
}

// tellHolders notifies the clients of holders that the lock is taken over: those that have a grace,
// and the one that the command has taken out of the lock.
func (r *Redis) tellHolders(ctx context.Context, x *Exchange) {
	if r.options.NoClientChannel {
		return
	}
	if x.Ends.IsOurs() && x.Answer.Left {
		_, _ = r.TellClient(ctx, x.Ends.ClientID(), ClientMessage{Verb: Forced, Owner: x.Ends, Text: x.Keys.Key})
	}
	for _, t := range x.Tells {
		if t.Holder.IsOurs() {
			left := strconv.FormatInt(time.Duration(t.Left+core.Span(time.Millisecond)-1).Milliseconds(), 10) // rounded up
			_, _ = r.TellClient(ctx, t.Holder.ClientID(), ClientMessage{Verb: TakenOver, Owner: t.Holder, Text: left + " " + string(x.Text) + " " + x.Keys.Key})
		}
	}
}

// ParseTakeover returns the rest of the grace, the ticket and the lock in the text of a message
// TakenOver, or of the message that lets a ticket through.
func ParseTakeover(text string) (left time.Duration, ticket OwnerText, lock string, ok bool) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		return 0, "", "", false
	}
	ms, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) || OwnerText(words[1]).Tenure() == "" {
		return 0, "", "", false
	}
	return time.Duration(ms) * time.Millisecond, OwnerText(words[1]), words[2], true
}

// mostPerCall is the largest number of Mirrors, or Acquires, that share one call of a script: the
// call is most of the cost of a single Mirror. A call with mostPerCall Mirrors takes some 50 µs,
// during which Redis serves no other command.
const mostPerCall = 32

// CarryAll sends commands in one pipeline, and fills in the answers. Mirrors, or Acquires, of one
// kind and slot share calls.
func (r *Redis) CarryAll(ctx context.Context, all []*Exchange) {
	if r.IsLazy() {
		all = slices.DeleteFunc(slices.Clone(all), func(x *Exchange) bool {
			err := r.Ready(ctx, x.Keys)
			if err != nil {
				x.Answer = x.failedAnswer(err)
			}
			return err != nil
		})
	}
	r.carryPipeline(ctx, all, mostPerCall)
}

// carryPipeline is CarryAll with at most limit commands in a call.
func (r *Redis) carryPipeline(ctx context.Context, all []*Exchange, limit int) {
	byGroup := func(a, b *Exchange) int { return a.shareKey() - b.shareKey() }
	if !slices.IsSortedFunc(all, byGroup) {
		slices.SortStableFunc(all, byGroup)
	}
	var calls []Call
	var parts [][]*Exchange
	for rest := all; len(rest) > 0; {
		n := 1
		for n < min(len(rest), limit) && rest[n].sharesWith(rest[0]) {
			n++
		}
		if first := rest[0]; first.Cmd.Op == core.Unmark {
			r.sendUnmark(ctx, first)
		} else {
			for _, x := range rest[:n] {
				x.Cmd.Polling = r.noteWant(x)
			}
			calls, parts = append(calls, r.callForAll(rest[:n])), append(parts, rest[:n])
		}
		rest = rest[n:]
	}
	if len(calls) == 0 {
		return
	}
	results, sent := r.DoAll(ctx, calls)
	for i, result := range results {
		part := parts[i]
		if err := result.Error(); err != nil && Answered(err) && (len(part) > 1 || part[0].Cmd.Op == core.Mirror && r.learnNoFair(err)) {
			// One lock may be the cause: a key of another type, a name that the ACL excludes, or
			// slots that a proxy knows and this client does not. A Mirror can do without the key of
			// Redisson's fair queue.
			r.carryPipeline(ctx, part, 1)
			continue
		}
		r.readAll(part, result)
		for _, x := range part {
			x.Answer.Sent = sent
		}
	}
}

// sharesWith reports whether both commands may be in one call.
func (x *Exchange) sharesWith(other *Exchange) bool {
	return x.Cmd.Op == other.Cmd.Op && x.shareKey() == other.shareKey() && (x.Cmd.Op == core.Mirror || x.Cmd.Op == core.Acquire)
}

// shareKey returns a number that is the same for commands of one slot and kind.
func (x *Exchange) shareKey() int { return int(x.Keys.Slot)<<8 | x.Kind.index }

// sendUnmark takes the mark of a tenure out of the queue: see scripts/queue.lua.
func (r *Redis) sendUnmark(ctx context.Context, x *Exchange) {
	r.sent.n.Add(1)
	err := r.Client.Do(ctx, r.Client.B().Zrem().Key(x.Keys.Queue()).Member(x.Text.Mark()).Build()).Error()
	if x.Answer = (Answer{Err: err, Heard: Answered(err), Before: -1}); err != nil {
		x.Answer.Fault = core.NotRun
	}
}
