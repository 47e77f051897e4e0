package driver

import (
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The replies to scripts as answers that package core knows.

// fillIn tells each of part what Redis said to it.
func (r *redis) fillIn(part []*exchange, result rueidis.RedisResult) {
	switch {
	case len(part) > 1 && part[0].cmd.Op == core.Acquire:
		r.fillInRow(part, result)
		return
	case part[0].cmd.Op != core.Mirror:
		part[0].answer = r.readResult(part[0], result)
		return
	}
	replies, err := result.ToArray()
	if err == nil && len(replies) != len(part) {
		err = fmt.Errorf("%d replies to %d mirrors", len(replies), len(part))
	}
	for i := range part {
		a := &part[i].answer
		var n int64
		if a.err = err; err == nil {
			n, a.err = replies[i].AsInt64()
		}
		a.heard = wire.Answered(a.err)
		switch {
		case a.err != nil:
			a.Fault = faultOf(core.Mirror, a.err)
		case n > 0:
			a.Found, a.Others = core.Holds, int(n-1)
		}
	}
}

// fillInRow is fillIn for acquires. One that was not asked for was not executed, and will not be.
func (r *redis) fillInRow(part []*exchange, result rueidis.RedisResult) {
	replies, err := wire.EachAcquire(result, len(part))
	for i, c := range part {
		switch {
		case err != nil:
			c.answer = r.read(c, wire.Answer{}, err)
		case i < len(replies):
			got, err := wire.ReadAcquire(replies[i], c.cmd.Tokens)
			c.answer = r.read(c, got, err)
		default:
			c.answer = answer{Reply: core.Reply{Fault: core.NotRun}, heard: true}
		}
	}
}

// readResult reads what Redis said to a command that was sent by itself.
func (r *redis) readResult(c *exchange, result rueidis.RedisResult) answer {
	switch {
	case c.cmd.Op == core.Step:
		return r.read(c, wire.Answer{}, result.Error())
	case c.cmd.Op == core.Leave && c.joins == "":
		n, err := result.AsInt64()
		return r.read(c, wire.Answer{Left: n}, err)
	}
	got, err := readAnswer(result, &c.cmd)
	if got.Met != nil && c.unless == nil {
		err = errors.New("a command without a condition was answered by one")
	}
	return r.read(c, got, err)
}

func readAnswer(result rueidis.RedisResult, cmd *core.Command) (wire.Answer, error) {
	switch cmd.Op {
	case core.Acquire:
		if cmd.Takes {
			return wire.ReadAskAcquire(result, cmd.Tokens)
		}
		return wire.ReadAcquire(result, cmd.Tokens)
	case core.Resume:
		n, err := result.AsInt64()
		return wire.Answer{Granted: n > 0, Others: int(max(n-1, 0))}, err
	case core.Join, core.Look, core.Leave:
		return wire.ReadStep(result, cmd.Tokens)
	default: // other functions read these
		panic("driver: an answer to a command " + cmd.Op.String())
	}
}

// read turns an answer of Redis into one that package core knows.
func (r *redis) read(c *exchange, got wire.Answer, err error) (a answer) {
	a.err, a.holder, a.heard, a.clock, a.met, a.before = err, got.Holder, wire.Answered(err), got.Clock, got.Met, -1
	if err != nil {
		a.Fault = faultOf(c.cmd.Op, err)
		if c.cmd.Op == core.Leave && wire.Released(err) { // a message to others was refused
			a.Fault, a.Left = core.Answered, true
			a.JoinFault = core.Unknown
		}
		return a
	}
	a.Left = got.Left > 0
	switch {
	case got.Met != nil:
		a.Fault = core.NotRun
		return a
	case c.cmd.Op == core.Leave && c.joins == "":
		return a
	case got.Refused != nil:
		a.Found, a.Unreplicated, a.err = core.Holds, true, got.Refused
		return a
	case got.Granted:
		a.Found, a.Token, a.Others = core.Holds, got.Counter, got.Others
		return a
	}
	if c.cmd.Op != core.Acquire { // that is told no more
		readPosition(&got, &a)
	}
	r.readOthers(c, &got, &a)
	return a
}

// readPosition turns what a step says of the ticket: where it stands, or that it was taken out again.
func readPosition(got *wire.Answer, a *answer) {
	a.Tickets = got.Tickets
	switch got.Position {
	case wire.SomePosition:
		a.Found = core.Waits
	case wire.FirstPosition:
		a.Found = core.First
	case wire.FullPosition:
		a.Full = true
	case wire.NoPosition:
	default:
		panic(got.Position)
	}
	if a.Found != core.Nowhere && got.Tickets > 0 {
		a.before = got.Before
	}
}

// readOthers turns what an answer without a grant says of the other clients: the holder, whose window it is, and a grant that is
// held back.
func (r *redis) readOthers(c *exchange, got *wire.Answer, a *answer) {
	if a.Holder = r.client.idOf(got.Holder); got.Holder != "" {
		a.Foreign = a.Holder == core.ID{}
		a.TTL = core.NoTTL
		if got.TTL >= 0 {
			a.TTL = core.Span(wire.Milliseconds(got.TTL))
		}
	}
	if c.cmd.Op == core.Acquire { // it is told no more
		return
	}
	if got.Window >= 0 {
		a.Window = max(core.Span(wire.Milliseconds(got.Window)), 1)
	}
	if got.HeldBack >= 0 {
		a.HeldBack, a.HeldFor = true, core.Span(wire.Milliseconds(got.HeldBack))
	}
}

// faultOf says what the error means for the command. An acquire takes back what it has written, others
// may have been executed in part if they fail inside of a script. A release and a renewal that the server
// refuses may be allowed a moment later, unless another key has come in the place of the lock.
func faultOf(op core.Op, err error) core.Fault {
	f, explained := wire.Diagnose(err)
	switch {
	case errors.Is(explained, wire.ErrWrongType) && (op == core.Mirror || op == core.Leave):
		return core.Fatal
	case f == wire.Unknown, op != core.Acquire && wire.Begun(err):
		return core.Unknown
	case f == wire.NotNow:
		return core.NotRun
	}
	switch op { // it was refused
	case core.Acquire, core.Resume, core.Join, core.Look:
		return core.Fatal
	case core.Mirror, core.Leave, core.Step, core.Unmark, core.Write:
		return core.NotRun
	default:
		panic("driver: a command that is " + op.String())
	}
}
