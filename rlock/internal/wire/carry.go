package wire

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Carry sends a command in the goroutine of its caller, and fills in its answer: that there is none, if ctx ends before.
func (r *Redis) Carry(ctx context.Context, x *Exchange) {
	if err := r.Ready(ctx, x.Keys); err != nil {
		x.Answer = x.failed(err)
		return
	}
	op := x.Cmd.Op
	if op == core.Mirror || op == core.Unmark {
		r.pipeline(ctx, []*Exchange{x}, 1)
		return
	}
	x.Cmd.Polling = r.leavesWindows(x)
	switch {
	case op == core.Leave && x.Cmd.Tenure == nil:
		r.force(ctx, x)
		return
	case r.options.SyncReplicas > 0 && (op == core.Acquire || op == core.Resume || op == core.Look):
		r.doReplicated(ctx, x)
		return
	}
	order := Order{Call: r.call(x), Slot: x.Keys.Slot, First: x.First, At: x.At}
	result, sent := r.Send(ctx, order)
	// One with a source of the user's is built and sent once more if it was refused, before it was executed, since the client
	// has no right to the keys of Redisson's fair queue: the call does not know which these are.
	if (x.Unless != nil || x.Cmd.Carries) && r.withoutFair(result.Error()) {
		order.Call, order.First = r.call(x), false
		result, sent = r.Send(ctx, order)
	}
	switch {
	case op == core.Write:
		if x.Answer = x.readWrite(result); sent.IsLate() { // its caller has left, and learns nothing more
			sent.GiveUp()
			sent = Sent{}
		}
	case x.Cmd.Carries:
		x.Answer = r.readCarrier(x, result)
	default:
		x.Answer = read(r, x, result)
	}
	x.Answer.Sent = sent
}

// force releases the holder in Redis, and tells its client if that is another of rlock.
func (r *Redis) force(ctx context.Context, x *Exchange) {
	call, result := r.step(x), rueidis.RedisResult{}
	if !IsOurs(x.Text) || strings.HasPrefix(x.Text, r.prefix) || r.options.NoClientChannel {
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

// most is how many mirrors, or acquires, share one call of the script. Alone, most of what a mirror costs is
// the call. Redis serves no other command during a call, here for some 50 us.
const most = 32

// CarryAll sends one pipeline: a call for each command, and one for mirrors, or for acquires, of one kind and slot, at
// most so many. It fills in the answers.
func (r *Redis) CarryAll(ctx context.Context, all []*Exchange) {
	if r.IsLate() {
		all = slices.DeleteFunc(slices.Clone(all), func(x *Exchange) bool {
			err := r.Ready(ctx, x.Keys)
			if err != nil {
				x.Answer = x.failed(err)
			}
			return err != nil
		})
	}
	r.pipeline(ctx, all, most)
}

// pipeline sends one pipeline, with so many commands in a call at most.
func (r *Redis) pipeline(ctx context.Context, all []*Exchange, most int) {
	byGroup := func(a, b *Exchange) int { return a.group() - b.group() }
	if !slices.IsSortedFunc(all, byGroup) {
		slices.SortStableFunc(all, byGroup)
	}
	var calls []Call
	var parts [][]*Exchange
	for rest := all; len(rest) > 0; {
		n := 1
		for n < min(len(rest), most) && rest[n].sharesWith(rest[0]) {
			n++
		}
		if first := rest[0]; first.Cmd.Op == core.Unmark {
			r.unmark(ctx, first)
		} else {
			for _, x := range rest[:n] {
				x.Cmd.Polling = r.leavesWindows(x)
			}
			calls, parts = append(calls, r.callOf(rest[:n])), append(parts, rest[:n])
		}
		rest = rest[n:]
	}
	if len(calls) == 0 {
		return
	}
	results, sent := r.DoAll(ctx, calls)
	for i, result := range results {
		part := parts[i]
		if err := result.Error(); err != nil && Answered(err) && (len(part) > 1 || part[0].Cmd.Op == core.Mirror && r.withoutFair(err)) {
			// One lock may be to blame: a key of another type, a name that the ACL excludes, a proxy that
			// knows of slots where this client does not. Or a key that a mirror can do without.
			r.pipeline(ctx, part, 1)
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
	return x.Cmd.Op == other.Cmd.Op && x.group() == other.group() && (x.Cmd.Op == core.Mirror || x.Cmd.Op == core.Acquire)
}

// group is the same for commands that may share a call.
func (x *Exchange) group() int { return int(x.Keys.Slot)<<8 | x.Kind.number }

// unmark takes the mark of a ticket that was granted the lock out of the queue: see scripts/queue.lua.
func (r *Redis) unmark(ctx context.Context, x *Exchange) {
	r.sent.n.Add(1)
	err := r.Client.Do(ctx, r.Client.B().Zrem().Key(x.Keys.Queue()).Member("!"+x.Text[:TenureLen-1]).Build()).Error()
	if x.Answer = (Answer{Err: err, Heard: Answered(err), Before: -1}); err != nil {
		x.Answer.Fault = core.NotRun
	}
}

// Foreign clients that only poll cannot be counted. They are left windows where the server knows
// scripts of Redisson, but only for names that this client wants all the time: where it leaves
// pauses, pollers come in these.
const (
	// spellPause is the longest pause of a name that is wanted all the time: as long as a
	// window of pollers.
	spellPause = 140 * time.Millisecond
	// spellTime is for how long a name must have been wanted before pollers are left a window.
	spellTime = 2 * time.Second
	// maxSpells is how many names are remembered.
	maxSpells = 4096
)

// spells are the names that this client has wanted of late.
type spells struct {
	mu    sync.Mutex // protects following
	names map[string]spell
}

// A spell is since when a name has been wanted without a pause.
type spell struct {
	since time.Time
	freed time.Time // when it was released, the zero time once it is wanted again
}

// wanted notes that the client wants the name, or frees it, and reports whether it has wanted it
// for long.
func (s *spells) wanted(name string, frees bool, now time.Time) (long bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil || len(s.names) >= maxSpells {
		s.names = make(map[string]spell) // the names that are wanted all the time will be back
	}
	p, known := s.names[name]
	if !known || !p.freed.IsZero() && now.Sub(p.freed) > spellPause {
		p = spell{since: now}
	}
	p.freed = time.Time{}
	if frees {
		p.freed = now
	}
	s.names[name] = p
	return now.Sub(p.since) >= spellTime
}

// leavesWindows reports whether a command that is about to be sent must leave windows to foreign clients that only poll. It notes
// that the name is wanted, or freed. An acquire leaves none.
func (r *Redis) leavesWindows(x *Exchange) bool {
	op := x.Cmd.Op
	if !x.Kind.Foreign || op == core.Write || op == core.Mirror && !x.Cmd.Asks {
		return false
	}
	frees := op == core.Leave && x.Joins == ""
	if !frees && op != core.Acquire {
		r.LookForRedisson(time.Now())
	}
	return r.Polls() && r.foreign.spells.wanted(x.Keys.Key, frees, time.Now()) && op != core.Acquire
}
