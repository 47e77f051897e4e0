package wire

import (
	"context"
	"math"
	"time"

	"github.com/redis/rueidis"
)

// An Order is a call that is sent by itself, in the goroutine of its caller. It has a place among the limits of its slot.
type Order struct {
	Call
	Slot  uint16
	First bool      // no other command of the same tenure is in flight, or was left behind
	At    time.Time // when it is sent: now
}

// A Sent says where a command was sent, and so whether it may be executed later. Of the zero Sent that is not known.
type Sent struct {
	Mark uint64 // of the pipelined connection, 0 if it was not sent by that; or executed
	late *line  // a connection of its own on which it was left behind, nil for none
}

// executed is the mark of a command that has been executed, or never will be. No connection has it.
const executed = math.MaxUint64

// Send makes the call, by a connection of its own if it is the first one and its caller is alone. If ctx ends before the
// answer is there, it returns the error of ctx.
func (r *Redis) Send(ctx context.Context, o Order) (rueidis.RedisResult, Sent) {
	if o.First {
		if l := r.direct.take(r.Limits(o.Slot), o.At); l != nil {
			return r.direct.do(ctx, l, o.Call)
		}
	}
	mark := r.Mark()
	result := r.Do(ctx, o.Call)
	if result.NonRedisError() == nil {
		r.heard(mark)
	}
	return result, Sent{Mark: mark}
}

// IsSettled reports whether the command of a Sent with the mark has been executed by now, or never will be, once one is
// answered that was sent later by the pipeline.
func (r *Redis) IsSettled(mark uint64) bool {
	return mark == executed || mark != 0 && r.Ordered() && r.Mark() == mark
}

// IsLate reports whether the command was left behind on a connection of its own. No other one comes behind it there, so its
// answer has to be awaited: one call of Await or of GiveUp follows.
func (s Sent) IsLate() bool { return s.late != nil }

// Await waits for the answer, or until ctx ends.
func (s Sent) Await(ctx context.Context) Sent {
	if s.late.settled(ctx) {
		return Sent{Mark: executed}
	}
	return Sent{}
}

// GiveUp does not wait.
func (s Sent) GiveUp() { s.late.cut() }
