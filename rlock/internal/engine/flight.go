package engine

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A landing is what became of a command that was sent.
type landing struct {
	place  *wire.Limit // to be left; nil if nothing was sent
	answer wire.Answer
	err    error
	// mark is that of the connections when it was sent, 0 if it was not sent in the pipeline.
	mark uint64
	// late is the answer to a direct command that its caller has not waited for, else nil.
	late *wire.Late
	// settled is set once the command has been executed, or never will be.
	settled bool
}

// send sends the command for a caller that leaves when ctx ends, or while there is no place
// when quit is closed. It reports whether the caller has left it behind: then the command is
// undone when its answer is in.
//
// Such a command flies in a goroutine of its own until then, whatever becomes of its caller. If
// it has to wait for a connection, rueidis opens that with its context, and an end of it would
// fail all commands that wait for the same connection. And where the client's
// commands have no order, no release is known to come behind a command that was
// cancelled.
func (t *tenure) send(ctx context.Context, op operation, quit <-chan struct{}) (l landing, left bool) {
	c := t.room.client
	place, err := c.Redis.Limits(t.room.name.Slot).Asks.Enter(ctx, quit)
	if err != nil {
		return landing{err: err}, false
	}
	if ctx.Done() == nil || c.Redis.Connected() && c.Redis.Ordered() {
		return t.exchange(ctx, op, place), false
	}
	landed := make(chan landing) // without room: what the caller has not taken is undone
	if !c.Redis.Start(func() { t.fly(ctx, op, place, landed) }) {
		place.Leave()
		return landing{err: rueidis.ErrClosing}, false
	}
	select {
	case l = <-landed:
		return l, false
	case <-ctx.Done():
		return l, true
	}
}

// fly is the goroutine of a command whose caller may leave.
func (t *tenure) fly(caller context.Context, op operation, p *wire.Limit, landed chan<- landing) {
	ctx := t.room.client.Redis.Deadline(time.Now())
	l := t.exchange(ctx, op, p)
	if !l.settled && ctx.Err() != nil {
		l.err = wire.ErrNoAnswer
	}
	select {
	case landed <- l:
	case <-caller.Done():
		t.room.undo(t, l)
	}
}

// exchange sends the command and reads the answer. It is called without the mutex.
func (t *tenure) exchange(ctx context.Context, op operation, p *wire.Limit) (l landing) {
	c := t.room.client
	l.place = p
	call, read := t.command(op)
	tokens := t.tokens.asked()
	switch {
	case c.Redis.SyncReplicas() > 0 && op != joining:
		l.answer, l.err = c.Redis.DoReplicated(ctx, call, t.lease, func(result rueidis.RedisResult) (wire.Answer, error) {
			return read(result, tokens)
		}, t.releaseCall())
	case op == acquiring:
		var result rueidis.RedisResult
		result, l.mark, l.late = c.Redis.DoFirst(ctx, t.room.name.Slot, t.trust.SentAt(), call)
		l.answer, l.err = read(result, tokens)
	default:
		l.mark = c.Redis.Mark()
		l.answer, l.err = read(c.Redis.Do(ctx, call), tokens)
	}
	if l.settled = wire.Answered(l.err); l.settled {
		p.Heard()
		if l.mark != 0 {
			c.Redis.Heard(l.mark)
		}
	}
	return l
}

// command returns the call and how its answer is read.
func (t *tenure) command(op operation) (wire.Call, func(rueidis.RedisResult, uint64) (wire.Answer, error)) {
	n, c := t.room.name, t.room.client
	s := wire.Step{}
	switch op {
	case joining:
		s.Join = t.member()
	case looking:
		s.Look, s.Heard = t.member(), t.heard
	default:
		c.seesAcquire(n, t.trust.SentAt())
		return n.kind().acquire(t), wire.ReadAcquire
	}
	return n.step(c, s, t.lease, t.tokens.asked()), wire.ReadStep
}

// startUndo has undo run, unless the client is closed.
func (r *room) startUndo(t *tenure, l landing) bool {
	return r.client.Redis.Start(func() { r.undo(t, l) })
}

// undo releases what a command may have been granted, or may be yet, whose caller has left
// while it was in flight. If the command has no answer, but the client's commands are
// ordered, the release comes behind it on its connection, so that the answer to the release
// settles both: until then the command keeps its place, and the next try for the name
// waits. After a direct command no release comes on its connection: it waits for the answer
// first. It runs in a goroutine of its own.
func (r *room) undo(t *tenure, l landing) {
	c := r.client
	ctx := c.Redis.Deadline(time.Now())
	if l.late != nil {
		l.settled = l.late.Settled(ctx)
	}
	released, err := c.Redis.Do(ctx, t.releaseCall()).AsInt64()
	l.place.Leave()
	if err == nil && c.Redis.Ordered() && c.Redis.Mark() == l.mark {
		l.settled = true
	}

	r.shard.mu.Lock()
	r.inFlight--
	r.escaped = true // the caller's waiter may point to the tenure yet
	t.giveUp(err != nil || released == 0 && !l.settled, l.settled, time.Now())
	r.wakeHead()
	r.exit()
}
