package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// An Answer is the result of a command: what package core is told of it, and what its caller has use for besides.
type Answer struct {
	core.Reply
	Err    error
	Heard  bool    // the server has answered
	Sent   Sent    // of a command that was sent by itself, or with others
	Owner  string  // of the lock, as Redis names it
	Clock  int64   // of Redis in µs, in the answer to a ticket that takes one; else 0
	Met    *string // what the condition has returned in place of the command, nil if that was executed
	Before int     // the ticket is in the queue, and so many stand before it; negative: that is not known
}

// failed returns the answer to a command that has an error in its place.
func (x *Exchange) failed(err error) (a Answer) {
	a.Err, a.Heard, a.Before, a.Fault = err, Answered(err), -1, faultOf(x.Cmd.Op, err)
	if x.Cmd.Op == core.Leave && Released(err) { // a message to others was refused
		a.Fault, a.Left, a.JoinFault = core.Answered, true, core.Unknown
	}
	return a
}

// faultOf says what the error means for the command. An acquire takes back what it has written, others
// may have been executed in part if they fail inside of a script. A release and a renewal that the server
// refuses may be allowed a moment later, unless another key has come in the place of the lock.
func faultOf(op core.Op, err error) core.Fault {
	f, explained := Diagnose(err)
	switch {
	case errors.Is(explained, ErrWrongType) && (op == core.Mirror || op == core.Leave):
		return core.Fatal
	case f == Unknown, op != core.Acquire && Begun(err):
		return core.Unknown
	case f == NotNow:
		return core.NotRun
	}
	switch op { // it was refused
	case core.Acquire, core.Resume, core.Join, core.Look:
		return core.Fatal
	case core.Mirror, core.Leave, core.Step, core.Unmark, core.Write:
		return core.NotRun
	default:
		panic("wire: a command that is " + op.String())
	}
}

// A value is a reply of Redis, or one of several values in it.
type value interface {
	ToString() (string, error)
	ToArray() ([]rueidis.RedisMessage, error)
	AsInt64() (int64, error)
	Error() error
}

// read returns what Redis has said to a command that was sent by itself, or to one of several acquires. It has a type parameter
// since an interface would take memory with each command.
func read[V value](r *Redis, x *Exchange, reply V) Answer {
	a, err := Answer{Before: -1, Heard: true}, error(nil)
	//exhaustive:ignore
	switch x.Cmd.Op {
	case core.Acquire:
		if x.Cmd.Takes {
			err = readAskAcquire(r, x, &a, reply)
		} else {
			err = readAcquire(r, x, &a, reply)
		}
	case core.Resume, core.Mirror:
		var n int64
		if n, err = reply.AsInt64(); n > 0 {
			a.Found, a.Others = core.Holds, int(n-1)
		}
	case core.Leave:
		if x.Joins == "" {
			var n int64
			n, err = reply.AsInt64()
			a.Left = n > 0
			break
		}
		fallthrough
	case core.Join, core.Look:
		var values []rueidis.RedisMessage
		if values, err = reply.ToArray(); err == nil {
			err = r.readStep(x, &a, values)
		}
	case core.Step, core.Unmark:
		err = reply.Error()
	default: // a write's reply is its caller's
		panic("wire: an answer to a command " + x.Cmd.Op.String())
	}
	if a.Met != nil && x.Unless == nil {
		err = errors.New("a command without a condition was answered by one")
	}
	if err != nil {
		return x.failed(err)
	}
	return a
}

// readAcquire reads what Redis says to an acquire.
func readAcquire[V value](r *Redis, x *Exchange, a *Answer, reply V) (err error) {
	if x.Cmd.Tokens > 0 {
		if token, err := reply.ToString(); err == nil {
			a.Found = core.Holds
			a.Token, err = parseCounter(token, x.Cmd.Tokens)
			return err
		}
	}
	denial, err := reply.ToArray()
	switch {
	case rueidis.IsRedisNil(err) && x.Cmd.Tokens == 0:
		a.Found = core.Holds
		return nil
	case err != nil:
		return err
	case len(denial) < 2:
		return fmt.Errorf("an acquire was answered with %d values, not 2", len(denial))
	}
	return r.readHolder(a, &denial[0], &denial[1])
}

// readHolder reads the rest of the lease of the holder, -1 for none, and who that is, "" for none.
func (r *Redis) readHolder(a *Answer, ttl, owner *rueidis.RedisMessage) error {
	left, err := ttl.AsInt64()
	if err == nil {
		a.Owner, err = owner.ToString()
	}
	if err != nil || a.Owner == "" {
		return err
	}
	a.Holder, a.TTL = r.IDOf(a.Owner), core.NoTTL
	a.Foreign = a.Holder == core.ID{}
	if left >= 0 {
		a.TTL = core.Span(Milliseconds(left))
	}
	return nil
}

// readAskAcquire is readAcquire for AskAcquire.
func readAskAcquire[V value](r *Redis, x *Exchange, a *Answer, reply V) error {
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 0 {
		err = errors.New("an acquire was answered with nothing")
	}
	if err == nil {
		a.Clock, err = parts[0].AsInt64()
	}
	switch {
	case err != nil:
		return err
	case len(parts) == metValues:
		return a.readMet(parts)
	case len(parts) > 1:
		return readAcquire(r, x, a, &parts[1])
	case x.Cmd.Tokens > 0:
		return errors.New("an acquire was answered without a token")
	}
	a.Found = core.Holds
	return nil
}

// metValues is how many values an answer has that a condition gives in place of the command: see scripts/condition_end.lua.
const metValues = 3

func (a *Answer) readMet(values []rueidis.RedisMessage) error {
	text, err := values[2].ToString()
	a.Met, a.Fault = &text, core.NotRun
	if err == nil {
		a.Clock, err = values[0].AsInt64()
	}
	return err
}

// eachAcquire returns the replies to so many acquires in one call. They end with the first that is no grant: behind that
// no lock was asked for.
func eachAcquire(result rueidis.RedisResult, many int) (replies []*rueidis.RedisMessage, err error) {
	values, err := result.ToArray()
	if err == nil && len(values) != many {
		err = fmt.Errorf("%d replies to %d acquires", len(values), many)
	}
	if err != nil {
		return nil, err
	}
	for i := range values {
		if text, err := values[i].ToString(); err == nil && text == "" {
			break
		}
		replies = append(replies, &values[i])
	}
	return replies, nil
}

// readStep reads what Redis says to a step in which a ticket joins or is looked for.
func (r *Redis) readStep(x *Exchange, a *Answer, values []rueidis.RedisMessage) (err error) {
	if len(values) == metValues {
		return a.readMet(values)
	}
	if len(values) < 5 {
		return fmt.Errorf("a step was answered with %d values, not 5", len(values))
	}
	var left, window int64
	heldBack := int64(-1)
	for i, number := range []*int64{0: &left, 3: &window, 5: &heldBack, 6: &a.Clock} {
		if number != nil && err == nil && i < len(values) {
			*number, err = values[i].AsInt64()
		}
	}
	if err != nil {
		return err
	}
	a.Left = left > 0
	if values[4].IsString() {
		return a.readGrant(x, values)
	}
	if err := r.readHolder(a, &values[1], &values[2]); err != nil {
		return err
	}
	if window >= 0 {
		a.Window = max(core.Span(Milliseconds(window)), 1)
	}
	if heldBack >= 0 {
		a.HeldBack, a.HeldFor = true, core.Span(Milliseconds(heldBack))
	}
	return a.readPosition(&values[4])
}

// readGrant reads the values of a step that has found, or granted, the lock to the ticket.
func (a *Answer) readGrant(x *Exchange, values []rueidis.RedisMessage) (err error) {
	if a.Owner, err = values[2].ToString(); err != nil {
		return err
	}
	a.Found = core.Holds
	if x.Cmd.Tokens > 0 {
		token, _ := values[4].ToString()
		a.Token, err = parseCounter(token, x.Cmd.Tokens)
	}
	return err
}

// readPosition reads where a step has found the ticket: 0 nowhere, 1 in the queue, 2 as the first, or -1: it has joined, and was
// taken out again. If it counts, it says also how far in front, and among how many tickets.
func (a *Answer) readPosition(reply *rueidis.RedisMessage) error {
	at, before := int64(0), -1
	if reply.IsArray() {
		numbers, err := reply.AsIntSlice()
		if err == nil && len(numbers) != 3 {
			err = fmt.Errorf("a position has %d numbers, not 3", len(numbers))
		}
		if err != nil {
			return err
		}
		at, before, a.Tickets = numbers[0], int(max(numbers[1]-1, 0)), int(numbers[2])
	} else {
		var err error
		if at, err = reply.AsInt64(); err != nil {
			return err
		}
	}
	switch at {
	case -1:
		a.Full = true
		return nil
	case 0:
		return nil
	case 1:
		a.Found = core.Waits
	case 2:
		a.Found = core.First
	default:
		return fmt.Errorf("a ticket was answered to be at position %d", at)
	}
	if a.Tickets > 0 {
		a.Before = before
	}
	return nil
}

// parseCounter reads the last of n fencing tokens.
func parseCounter(text string, n uint64) (uint64, error) {
	last, err := strconv.ParseUint(text, 10, 63)
	if err == nil && last < n {
		err = fmt.Errorf("a grant of %d tokens was answered with %d", n, last)
	}
	return last, err
}

// readAll reads what Redis has said to the commands of one call.
func (r *Redis) readAll(part []*Exchange, result rueidis.RedisResult) {
	switch {
	case part[0].Cmd.Op == core.Mirror:
		r.readMirrors(part, result)
	case len(part) > 1:
		r.readAcquires(part, result)
	default:
		part[0].Answer = read(r, part[0], result)
	}
}

// readMirrors reads what Redis has said to mirrors in one call.
func (r *Redis) readMirrors(part []*Exchange, result rueidis.RedisResult) {
	replies, err := result.ToArray()
	if err == nil && len(replies) != len(part) {
		err = fmt.Errorf("%d replies to %d mirrors", len(replies), len(part))
	}
	for i, x := range part {
		if err != nil {
			x.Answer = x.failed(err)
		} else {
			x.Answer = read(r, x, &replies[i])
		}
	}
}

// readAcquires reads what Redis has said to several acquires in one call. One that was not asked for was not executed, and will
// not be.
func (r *Redis) readAcquires(part []*Exchange, result rueidis.RedisResult) {
	replies, err := eachAcquire(result, len(part))
	for i, x := range part {
		switch {
		case err != nil:
			x.Answer = x.failed(err)
		case i < len(replies):
			x.Answer = read(r, x, replies[i])
		default:
			x.Answer = Answer{Reply: core.Reply{Fault: core.NotRun}, Heard: true, Before: -1}
		}
	}
}

// readWrite reads what Redis has said to a guarded write. The answer of a server decides, also if it is an error: then a source was
// executed in part, or not at all, and will not be.
func (x *Exchange) readWrite(result rueidis.RedisResult) (a Answer) {
	var err error
	x.Write.Reply, err = result.ToMessage()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	a = Answer{Err: err, Heard: Answered(err), Before: -1}
	a.Found = core.Holds
	switch {
	case fenced(err, x.Write.nonce):
		a.Found = core.Nowhere
	case a.Heard:
	default:
		a.Fault = faultOf(core.Write, err)
	}
	return a
}

// readCarrier reads what Redis has said to a release that carries a guarded write: whether that was executed, what its source has
// returned, and the answer to the step, in which a ticket may join.
func (r *Redis) readCarrier(x *Exchange, result rueidis.RedisResult) (a Answer) {
	w := x.Write
	parts, err := result.ToArray()
	if err == nil && len(parts) != 3 {
		err = fmt.Errorf("a release with a guarded write was answered with %d values, not 3", len(parts))
	}
	if err != nil {
		if a = x.failed(err); result.Error() != nil && a.Heard && a.Fault == core.NotRun {
			w.Fate, w.Err = WriteRefused, result.Error()
		}
		return a
	}
	executed, err := parts[0].AsInt64()
	switch refusal := parts[1].Error(); {
	case err != nil:
		return x.failed(err)
	case executed == 1:
		w.Fate, w.Reply = WriteRan, parts[1]
	case refusal == nil: // none that can be read
	case fenced(refusal, w.nonce):
		w.Fate = WriteFenced
	default:
		w.Fate, w.Err = WriteRefused, refusal
	}
	return read(r, x, &parts[2])
}

// Package core knows this client as ThisClient, and each other client of rlock as OtherClient.
const (
	ThisClient  = 1
	OtherClient = 2
)

// IDOf returns the tenure of an owner in Redis, "<uuid>:<id>", the zero ID for an owner that is none of rlock's.
func (r *Redis) IDOf(owner string) core.ID {
	number, ok := NumberOf(owner)
	if !ok {
		return core.ID{}
	}
	id := core.ID{Client: OtherClient, N: number}
	if strings.HasPrefix(owner, r.prefix) {
		id.Client = ThisClient
	}
	return id
}

// A Notice is a message to a client about one of its tickets.
type Notice struct {
	core.Message        // Granted, AtFront, or Satisfied: a release has taken the ticket out of the queue, with Answer for its call
	Answer       string // of the source of the release
	Lock         string // the lock's name
	Ticket       string // the text of its tenure
}

// ParseNotice parses a message on the client's channel of a lock. Other users may publish
// there, so it may be any text.
func (r *Redis) ParseNotice(message string) (n Notice, ok bool) {
	switch {
	case strings.HasPrefix(message, "?"):
		n.Kind = core.AtFront
		n.Ticket, n.Lock, ok = strings.Cut(message[1:], " ")
	case strings.HasPrefix(message, "="):
		n, ok = parseAnswer(message[1:])
	case strings.HasPrefix(message, "+"):
		n, ok = parseGrant(message[1:])
	}
	if !ok || len(n.Ticket) < TenureLen {
		return Notice{}, false
	}
	n.ID = r.IDOf(n.Ticket)
	_, n.More = CutMore(n.Ticket)
	return n, true
}

// parseGrant parses the message of a grant: "<ticket> <last token> <how many> <lock>".
func parseGrant(text string) (n Notice, ok bool) {
	words := strings.SplitN(text, " ", 4)
	if len(words) < 4 {
		return n, false
	}
	n.Kind, n.Ticket, n.Lock = core.Granted, words[0], words[3]
	last, err := strconv.ParseUint(words[1], 10, 63)
	many, err2 := strconv.ParseUint(words[2], 10, 63)
	if err == nil && err2 == nil && many > 0 && many <= last {
		n.Token, n.Tokens = last, many
	}
	return n, true
}

// parseAnswer parses the message that a ticket is answered: "<ticket> <n> <lock><answer>".
func parseAnswer(text string) (n Notice, ok bool) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		return n, false
	}
	size, err := strconv.Atoi(words[1])
	if err != nil || size < 0 || size > len(words[2]) {
		return n, false
	}
	n.Kind, n.Ticket, n.Lock, n.Answer = core.Satisfied, words[0], words[2][:size], words[2][size:]
	return n, true
}
