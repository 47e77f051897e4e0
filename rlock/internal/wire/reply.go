package wire

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// An Answer is the answer to a command: the reply for package core, and more for its caller.
type Answer struct {
	core.Reply
	Err    error
	Heard  bool        // the server answered
	Sent   Sent        // the place to which the command was sent
	Owner  OwnerText   // the lock's owner
	Owners []OwnerText // the texts of the Holders, in their order
	Clock  int64       // Redis' clock in µs, for a ticket that takes an answer; 0 for any other
	Met    *string     // the string that the condition returned; nil if the command was executed
	Before int         // the number of tickets before the ticket of the command; negative if it is not known
}

// failedAnswer returns the answer to a command that failed with err.
func (x *Exchange) failedAnswer(err error) (a Answer) {
	a.Err, a.Heard, a.Before, a.Fault = err, Answered(err), -1, faultOf(x.Cmd.Op, err)
	if x.Cmd.Op == core.Leave && Released(err) {
		a.Fault, a.Left, a.JoinFault = core.Answered, true, core.Unknown
	}
	return a
}

// faultOf returns the fault that an error means for a command. An Acquire that fails inside its
// script has undone what it wrote; any other command may have been executed in part. A Leave or a
// Mirror that the server refuses may be allowed later, unless the key is no lock any more.
func faultOf(op core.Op, err error) core.Fault {
	d, explained := Diagnose(err)
	switch {
	case errors.Is(explained, ErrWrongType) && (op == core.Mirror || op == core.Leave):
		return core.Fatal
	case d == Unknown, op != core.Acquire && hasBegun(err):
		return core.Unknown
	case d == NotNow:
		return core.NotRun
	}
	switch op { // the server refused it
	case core.Acquire, core.Resume, core.Join, core.Look:
		return core.Fatal
	case core.Mirror, core.Leave, core.Step, core.Unmark, core.Write:
		return core.NotRun
	default:
		panic("wire: a command that is " + op.String())
	}
}

// A value is a reply of Redis, or a value in a reply.
type value interface {
	ToString() (string, error)
	ToArray() ([]rueidis.RedisMessage, error)
	AsInt64() (int64, error)
	Error() error
}

// readAnswer returns the answer to a command. reply is the reply to the command's own call, or the
// part of a reply that is about the command. It has a type parameter, since an interface would
// allocate memory for each command.
func readAnswer[V value](r *Redis, x *Exchange, reply V) Answer {
	a, err := Answer{Before: -1, Heard: true}, error(nil)
	//exhaustive:ignore
	switch x.Cmd.Op {
	case core.Acquire:
		if x.Cmd.Answerable {
			err = readClockedAcquire(r, x, &a, reply)
		} else {
			err = readAcquire(r, x, &a, reply)
		}
	case core.Resume, core.Mirror:
		var n int64
		if n, err = reply.AsInt64(); n != 0 {
			a.Takes, n = n < 0, max(n, -n)
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
		if values, err = reply.ToArray(); err == nil && x.takesOver() {
			values, err = r.readHolders(&a, values)
		}
		if err == nil {
			err = r.readStep(x, &a, values)
		}
	case core.Step, core.Unmark:
		err = reply.Error()
	default: // the caller reads the reply to a Write
		panic("wire: an answer to a command " + x.Cmd.Op.String())
	}
	if a.Met != nil && x.Unless == nil {
		err = errors.New("a command without a condition was answered by one")
	}
	if err != nil {
		return x.failedAnswer(err)
	}
	return a
}

// readAcquire reads the reply to an Acquire.
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

// ownerIn reads the text of an owner.
func ownerIn(m *rueidis.RedisMessage) (OwnerText, error) {
	text, err := m.ToString()
	return OwnerText(text), err
}

// readHolder reads the TTL of the lock's key, and its holder.
func (r *Redis) readHolder(a *Answer, ttl, owner *rueidis.RedisMessage) error {
	left, err := ttl.AsInt64()
	if err == nil {
		a.Owner, err = ownerIn(owner)
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

// readClockedAcquire reads the reply to an Acquire by the script clockedAcquire.
func readClockedAcquire[V value](r *Redis, x *Exchange, a *Answer, reply V) error {
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

// metValues is the number of values in the reply if a condition was met and returned a string: see
// scripts/condition_end.lua.
const metValues = 3

func (a *Answer) readMet(values []rueidis.RedisMessage) error {
	text, err := values[2].ToString()
	a.Met, a.Fault = &text, core.Skipped
	if err == nil {
		a.Clock, err = values[0].AsInt64()
	}
	return err
}

// readStep reads the reply to a step in which a ticket joins or is looked for.
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

// readHolders reads the holders in the reply to a step of a ticket that takes the lock over, and
// returns the reply of the step alone.
func (r *Redis) readHolders(a *Answer, replies []rueidis.RedisMessage) ([]rueidis.RedisMessage, error) {
	if len(replies) == 0 || !replies[0].IsArray() {
		return replies, nil // a condition was met
	}
	if len(replies) < 2 {
		return nil, fmt.Errorf("a step of a takeover was answered with %d values, not 2", len(replies))
	}
	takes, err := replies[1].AsInt64()
	if a.Takes = takes > 0; err != nil {
		return nil, err
	}
	for i := range replies[2:] {
		text, err := ownerIn(&replies[2+i])
		if err != nil {
			return nil, err
		}
		owner, _ := text.CutWrite()
		if slices.Contains(a.Owners, owner) {
			continue
		}
		_, more := owner.CutMore()
		a.Owners, a.Holders = append(a.Owners, owner), append(a.Holders, core.Holding{ID: r.HolderID(owner), More: more, Foreign: !owner.IsOurs()})
	}
	return replies[0].ToArray()
}

// HolderID is IDOf for one of several holders: owners of other programs have different IDs.
func (r *Redis) HolderID(owner OwnerText) core.ID {
	if id := r.IDOf(owner); id != (core.ID{}) {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(owner))
	return core.ID{Client: foreignClient, N: h.Sum64()}
}

// readGrant reads the reply to a step that granted the ticket the lock, or found that the ticket
// has it.
func (a *Answer) readGrant(x *Exchange, values []rueidis.RedisMessage) (err error) {
	if a.Owner, err = ownerIn(&values[2]); err != nil {
		return err
	}
	a.Found = core.Holds
	if x.Cmd.Tokens > 0 {
		token, _ := values[4].ToString()
		a.Token, err = parseCounter(token, x.Cmd.Tokens)
	}
	return err
}

// readPosition reads the fifth value of a step: 0 if the ticket is nowhere, 1 if it is in the
// queue, 2 if it is first, and -1 if it was taken out again since the queue was full. If the
// command Counts, the value is an array of this number, the position of the ticket, and the number
// of all tickets in the queue.
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

// readAll reads the reply to the commands of one call. The reply to an Acquire behind the first
// refused one is empty: it was not executed.
func (r *Redis) readAll(part []*Exchange, result rueidis.RedisResult) {
	op := part[0].Cmd.Op
	if len(part) == 1 && op != core.Mirror {
		part[0].Answer = readAnswer(r, part[0], result)
		return
	}
	replies, err := result.ToArray()
	if err == nil && len(replies) != len(part) {
		err = fmt.Errorf("%d replies to %d commands", len(replies), len(part))
	}
	for i, x := range part {
		if err != nil {
			x.Answer = x.failedAnswer(err)
		} else if text, wrong := replies[i].ToString(); op == core.Acquire && wrong == nil && text == "" {
			x.Answer = Answer{Reply: core.Reply{Fault: core.Skipped}, Heard: true, Before: -1}
		} else {
			x.Answer = readAnswer(r, x, &replies[i])
		}
	}
}

// readWrite reads the reply to a guarded write. An error of the server is an answer as well: the
// source was executed in part or not at all, and the write is not sent again.
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

// readCarrier reads the reply to a release that carries a guarded write: whether the write was
// executed, what its source returned, and the reply to the step, in which a ticket may join.
func (r *Redis) readCarrier(x *Exchange, result rueidis.RedisResult) (a Answer) {
	w := x.Write
	parts, err := result.ToArray()
	if err == nil && len(parts) != 3 {
		err = fmt.Errorf("a release with a guarded write was answered with %d values, not 3", len(parts))
	}
	if err != nil {
		if a = x.failedAnswer(err); result.Error() != nil && a.Heard && a.Fault == core.NotRun {
			w.Fate, w.Err = WriteRefused, result.Error()
		}
		return a
	}
	executed, err := parts[0].AsInt64()
	switch refusal := parts[1].Error(); {
	case err != nil:
		return x.failedAnswer(err)
	case executed == 1:
		w.Fate, w.Reply = WriteRan, parts[1]
	case refusal == nil: // not a reply of the script: the fate stays unknown
	case fenced(refusal, w.nonce):
		w.Fate = WriteFenced
	default:
		w.Fate, w.Err = WriteRefused, refusal
	}
	return readAnswer(r, x, &parts[2])
}

// ThisClient and OtherClient stand for clients in IDs of package core: this client, and every other
// client of rlock.
const (
	ThisClient    = 1
	OtherClient   = 2
	foreignClient = 3 // of the Holders of an Answer only
)

// IDOf returns the ID of the tenure of an owner; the zero ID for an owner of another program.
func (r *Redis) IDOf(owner OwnerText) core.ID {
	number, ok := owner.TenureNumber()
	if !ok {
		return core.ID{}
	}
	id := core.ID{Client: OtherClient, N: number}
	if owner.ClientID() == r.prefix {
		id.Client = ThisClient
	}
	return id
}

// A TicketMessage is a message to a client about one of its tickets.
type TicketMessage struct {
	core.Message        // the message for core, of the kind Granted, AtFront, Satisfied or LetThrough
	Answer       string // the answer of the release, if the kind is Satisfied
	Lock         string // the lock's name
	Ticket       OwnerText
}

// ParseTicketMessage parses a message on the client's channel of a lock, where other users may
// publish any text.
func (r *Redis) ParseTicketMessage(message string) (n TicketMessage, ok bool) {
	switch {
	case strings.HasPrefix(message, "?"):
		n.Kind = core.AtFront
		var ticket string
		ticket, n.Lock, ok = strings.Cut(message[1:], " ")
		n.Ticket = OwnerText(ticket)
	case strings.HasPrefix(message, "="):
		n, ok = parseAnswer(message[1:])
	case strings.HasPrefix(message, "+"):
		n, ok = parseGrant(message[1:])
	case strings.HasPrefix(message, ">"):
		var grace time.Duration
		grace, n.Ticket, n.Lock, ok = ParseTakeover(message[1:])
		n.Kind, n.Left = core.LetThrough, core.Span(grace)
	}
	if !ok || n.Ticket.Tenure() == "" {
		return TicketMessage{}, false
	}
	n.ID = r.IDOf(n.Ticket)
	_, n.More = n.Ticket.CutMore()
	return n, true
}

// parseGrant parses the message of a grant: "<ticket> <last token> <number of tokens> <lock>".
func parseGrant(text string) (n TicketMessage, ok bool) {
	words := strings.SplitN(text, " ", 4)
	if len(words) < 4 {
		return n, false
	}
	n.Kind, n.Ticket, n.Lock = core.Granted, OwnerText(words[0]), words[3]
	last, err := strconv.ParseUint(words[1], 10, 63)
	many, err2 := strconv.ParseUint(words[2], 10, 63)
	if err == nil && err2 == nil && many > 0 && many <= last {
		n.Token, n.Tokens = last, many
	}
	return n, true
}

// parseAnswer parses the message of an answer: "<ticket> <length of the lock's name>
// <lock><answer>".
func parseAnswer(text string) (n TicketMessage, ok bool) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		return n, false
	}
	size, err := strconv.Atoi(words[1])
	if err != nil || size < 0 || size > len(words[2]) {
		return n, false
	}
	n.Kind, n.Ticket, n.Lock, n.Answer = core.Satisfied, OwnerText(words[0]), words[2][:size], words[2][size:]
	return n, true
}

// The errors of a server, a config or a name that cannot work. Package rlock exports them, with
// what each means for a caller.
var (
	ErrClosed        = errors.New("client is closed")
	ErrInvalidConfig = errors.New("invalid config")
	ErrInvalidName   = errors.New("invalid lock name")
	ErrNoPermission  = errors.New("the Redis user lacks a permission")
	ErrNotReplicated = errors.New("too few replicas have the grant")
	ErrUnsupported   = errors.New("server lacks a command")
	ErrWrongType     = errors.New("the key is no lock of this kind")
)
