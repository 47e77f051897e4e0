package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// A Step is one command about a lock's queue: see scripts/queue.lua.
type Step struct {
	Leave Member // the member that leaves, the zero Member for none
	Join  Member // the member that joins, likewise
	Look  Member // the member that is looked for, likewise

	Lease  string // that a look asks for, in milliseconds
	Number string // what the kind's part of the script takes, "" for nothing
	Polls  bool   // there may be foreign clients that only poll
	Heard  bool   // of a look: a foreign client was heard to release the lock
	Counts bool   // of a step in which none leaves: where does the ticket stand?
	Most   int    // of one that joins, and with Counts: how many tickets may stand in the queue with it; negative: any number
}

// A Member of the queue is the ticket of a tenure to come and its mode: "x" if it needs the
// lock alone, "s" if it shares it, "a" if it needs it alone and takes an answer of a release in its place; "X", "S" and "A" if
// it polls.
type Member struct{ Mode, Ticket string }

// Step returns the call of a kind's script for the step.
func (r *Redis) Step(script *Script, k *Keys, s Step) Call {
	names := k.names()
	c := Call{Script: script, fair: r.fairRights(names[fairQueueName])}
	all := append(c.words.all[:0], k.Key, names[queueName], names[foreignName], names[channelName])
	if c.fair != nil { // at fairKeysAt
		all = append(all, names[fairQueueName], names[fairTimesName])
	}
	if names[extraName] != "" {
		all = append(all, names[extraName])
	}
	c.words.keys = len(all)
	none := Member{}
	how := r.how(s.Polls)
	if s.Heard {
		how += "!"
	}
	all = append(all, how)
	if s.Leave != none && s.Join == none && s.Look == none {
		all = append(all, s.Leave.Ticket)
		if s.Number != "" || s.Leave.Mode != "x" {
			all = append(all, s.Number, s.Leave.Mode)
		}
	} else {
		all = append(all, s.Lease, s.Number, Flag(s.Leave != none), Flag(s.Join != none))
		for _, member := range [...]Member{s.Leave, s.Join, s.Look} {
			if member != none {
				all = append(all, member.Mode+member.Ticket)
			}
		}
		if s.Counts {
			all = append(all, strconv.Itoa(s.Most))
		}
	}
	c.words.n = len(all)
	return c
}

// Flag writes a bool as the scripts take it.
func Flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// An Answer is what Redis says to an acquire or to a step.
type Answer struct {
	Left int64 // of a step: whether the member that left was there

	Granted  bool
	Others   int      // of a resume: how many tickets and foreign clients wait
	Counter  uint64   // of the fencing tokens, if granted; 0 for a lock without
	TTL      int64    // of the holder's lease in milliseconds, if not granted; -1 for none
	Holder   string   // its owner, if not granted; "" for none
	Window   int64    // milliseconds that the window of foreign clients goes on, negative if it is not
	Position Position // in the queue
	Before   int      // of a step that counts: how many tickets stand before it
	Tickets  int      // and how many there are, with it
	// HeldBack, in the answer to a step, is for how many more milliseconds readers are held back for
	// a writer that foreign readers keep out; -1 if they are not.
	HeldBack int64
	Clock    int64   // of Redis in µs, in the answer to a step about a ticket that takes an answer; else 0
	Met      *string // what the condition before the command has returned; nil: the command was executed

	Refused error // the grant does not count, and why: too few replicas have it
}

// A Position is where a ticket stands in the queue.
type Position int

// The positions, as queue.lua answers them.
const (
	NoPosition    Position = iota // it is not in the queue
	SomePosition                  // it is
	FirstPosition                 // it is the first

	FullPosition Position = -1 // it has joined, and was taken out again in the same step: too many wait
)

// A Value is a reply of Redis, or one of several values in it.
type Value interface {
	ToString() (string, error)
	ToArray() ([]rueidis.RedisMessage, error)
}

// ReadAcquire reads what Redis says to an acquire that reserves so many fencing tokens, 0
// for a lock without. It has a type parameter since an interface would take memory with each acquire.
func ReadAcquire[V Value](reply V, tokens uint64) (a Answer, err error) {
	a.Window = -1
	if tokens > 0 {
		if counter, err := reply.ToString(); err == nil {
			a.Granted = true
			a.Counter, err = parseCounter(counter, tokens)
			return a, err
		}
	}
	denial, err := reply.ToArray()
	if rueidis.IsRedisNil(err) && tokens == 0 {
		return Answer{Granted: true}, nil
	}
	if err == nil && len(denial) < 2 {
		err = fmt.Errorf("an acquire was answered with %d values, not 2", len(denial))
	}
	if err == nil {
		a.TTL, err = denial[0].AsInt64()
	}
	if err == nil {
		a.Holder, err = denial[1].ToString()
	}
	return a, err
}

// EachAcquire returns the replies to so many acquires in one call. They end with the first that is no grant: behind that
// no lock was asked for.
func EachAcquire(result rueidis.RedisResult, many int) (replies []*rueidis.RedisMessage, err error) {
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

// ReadAskAcquire is ReadAcquire for AskAcquire.
func ReadAskAcquire(reply Value, tokens uint64) (a Answer, err error) {
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 0 {
		err = errors.New("an acquire was answered with nothing")
	}
	if err != nil {
		return Answer{Window: -1}, err
	}
	clock, err := parts[0].AsInt64()
	switch {
	case err != nil:
	case len(parts) == metValues:
		a, err = readMet(parts)
	case len(parts) > 1:
		a, err = ReadAcquire(&parts[1], tokens)
	case tokens > 0:
		err = errors.New("an acquire was answered without a token")
	default:
		a.Granted = true
	}
	a.Clock = clock
	return a, err
}

// metValues is how many values an answer has that a condition gives in place of the command: see scripts/condition_end.lua.
const metValues = 3

func readMet(values []rueidis.RedisMessage) (a Answer, err error) {
	text, err := values[2].ToString()
	a = Answer{Met: &text, Window: -1, HeldBack: -1}
	if err == nil {
		a.Clock, err = values[0].AsInt64()
	}
	return a, err
}

// ReadStep reads what Redis says to a step in which a ticket joins or is looked for, and
// that reserves so many fencing tokens with a grant, 0 for a lock without.
func ReadStep(result rueidis.RedisResult, tokens uint64) (a Answer, err error) {
	values, err := result.ToArray()
	if err == nil && len(values) == metValues {
		return readMet(values)
	}
	return readStep(values, err, tokens)
}

// ReadCarrier reads what Redis says to a release that carries a guarded write: whether that was executed, what its source has
// returned, and the answer to the step, in which a ticket may join.
func ReadCarrier(result rueidis.RedisResult, joins bool, tokens uint64) (executed bool, reply rueidis.RedisMessage, a Answer, err error) {
	parts, err := result.ToArray()
	if err == nil && len(parts) != 3 {
		err = fmt.Errorf("a release with a guarded write was answered with %d values, not 3", len(parts))
	}
	if err != nil {
		return false, reply, a, err
	}
	done, err := parts[0].AsInt64()
	switch step := &parts[2]; {
	case err != nil:
	case joins:
		values, failed := step.ToArray()
		a, err = readStep(values, failed, tokens)
	default:
		a.Left, err = step.AsInt64()
	}
	return done == 1, parts[1], a, err
}

// readStep reads the values of a step's answer.
func readStep(values []rueidis.RedisMessage, err error, tokens uint64) (a Answer, _ error) {
	if err == nil && len(values) < 5 {
		err = fmt.Errorf("a step was answered with %d values, not 5", len(values))
	}
	if err != nil {
		return a, err
	}
	a.HeldBack = -1
	for i, number := range []*int64{0: &a.Left, 1: &a.TTL, 3: &a.Window, 5: &a.HeldBack, 6: &a.Clock} {
		if number != nil && err == nil && i < len(values) {
			*number, err = values[i].AsInt64()
		}
	}
	if err == nil {
		a.Holder, err = values[2].ToString()
	}
	if err != nil {
		return a, err
	}
	if values[4].IsInt64() { // asked first, since ToString would make an error of it, with its text
		position, err := values[4].AsInt64()
		if err == nil {
			a.Position, err = toPosition(position)
		}
		return a, err
	}
	if values[4].IsArray() {
		return a, a.readPosition(&values[4])
	}
	token, err := values[4].ToString()
	if err != nil {
		return a, err
	}
	a.Granted = true
	if tokens > 0 {
		a.Counter, err = parseCounter(token, tokens)
	}
	return a, err
}

// readPosition reads where a step that counts has found the ticket.
func (a *Answer) readPosition(reply *rueidis.RedisMessage) error {
	numbers, err := reply.AsIntSlice()
	if err == nil && len(numbers) != 3 {
		err = fmt.Errorf("a position has %d numbers, not 3", len(numbers))
	}
	if err != nil {
		return err
	}
	a.Before, a.Tickets = int(max(numbers[1]-1, 0)), int(numbers[2])
	a.Position, err = toPosition(numbers[0])
	return err
}

// toPosition returns the position that a server has answered as n.
func toPosition(n int64) (p Position, err error) {
	if n < int64(FullPosition) || n > int64(FirstPosition) {
		return NoPosition, fmt.Errorf("a ticket was answered to be at position %d", n)
	}
	return Position(n), nil
}

// parseCounter reads the last of n fencing tokens.
func parseCounter(text string, n uint64) (uint64, error) {
	last, err := strconv.ParseUint(text, 10, 63)
	if err == nil && last < n {
		err = fmt.Errorf("a grant of %d tokens was answered with %d", n, last)
	}
	return last, err
}

// A Notice is a message to a client about one of its tickets.
type Notice struct {
	Granted  bool   // the ticket has the lock; else it is to be looked for, unless it is answered
	Answered bool   // a release has taken the ticket out of the queue, with Answer for its call
	Answer   string // of the source of the release
	Lock     string // the lock's name
	Ticket   string // the text of its tenure
	Counter  uint64 // of the fencing tokens, 0 for none
	Reserved uint64 // how many of them are the ticket's
}

// ParseNotice parses a message on the client's channel of a lock. Other users may publish
// there, so it may be any text.
func ParseNotice(message string) (n Notice, ok bool) {
	switch {
	case strings.HasPrefix(message, "?"):
		n.Ticket, n.Lock, ok = strings.Cut(message[1:], " ")
		return n, ok && len(n.Ticket) >= TenureLen
	case strings.HasPrefix(message, "="):
		return parseAnswer(message[1:])
	case !strings.HasPrefix(message, "+"):
		return n, false
	}
	words := strings.SplitN(message[1:], " ", 4)
	if len(words) < 4 || len(words[0]) < TenureLen {
		return n, false
	}
	n = Notice{Granted: true, Ticket: words[0], Lock: words[3]}
	if words[1] != "" {
		counter, err := strconv.ParseUint(words[1], 10, 63)
		reserved, err2 := strconv.ParseUint(words[2], 10, 63)
		if err == nil && err2 == nil && reserved > 0 && reserved <= counter {
			n.Counter, n.Reserved = counter, reserved
		}
	}
	return n, true
}

// parseAnswer parses the message that a ticket is answered: "<ticket> <n> <lock><answer>".
func parseAnswer(text string) (n Notice, ok bool) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 || len(words[0]) < TenureLen {
		return n, false
	}
	size, err := strconv.Atoi(words[1])
	if err != nil || size < 0 || size > len(words[2]) {
		return n, false
	}
	return Notice{Answered: true, Ticket: words[0], Lock: words[2][:size], Answer: words[2][size:]}, true
}

// A Resumption says who takes a lock that was passed on: see scripts/resume.lua.
type Resumption struct {
	Lease    string // in milliseconds
	From, To string // the fields of the owner that the lock was passed on with, and of the one that resumes
	// FromLease and ToLease are the keys of the two readers' leases; "" for a lock that is not read.
	FromLease, ToLease string
	Polls              bool // there may be foreign clients that only poll
}

// Resume returns the call for a lock that is a hash of owners.
func (r *Redis) Resume(k *Keys, s Resumption) Call {
	n := k.names()
	c := Call{Script: Resume}
	all := append(c.words.all[:0], k.Key, n[queueName], n[foreignName], n[channelName])
	mode := "x"
	if s.ToLease != "" {
		all, mode = append(all, s.FromLease, s.ToLease), "s"
	} else if c.fair = r.fairRights(n[fairQueueName]); c.fair != nil { // at fairKeysAt
		all = append(all, n[fairQueueName], n[fairTimesName])
	}
	c.words.keys = len(all)
	all = append(all, r.how(s.Polls), s.Lease, s.From, s.To, mode)
	c.words.n = len(all)
	return c
}

// how says how a script is to count: with or without foreign clients that only poll.
func (r *Redis) how(polls bool) string {
	if polls {
		return r.family + "+"
	}
	return r.family
}

// conditions makes the scripts of conditions, each before an acquire or a step.
var conditions composed

// The parts of such a script around its source: see scripts/condition.lua.
var (
	conditionBegins = releaseBegins + oneLine(read("condition"))
	conditionEnds   = "end)() " + oneLine(read("condition_end"))
)

// Unless returns the call of a condition and of the command c behind it, an acquire or a step, which is executed unless the
// source returns a string.
func Unless(source string, keys, args []string, c *Call) Call {
	commandKeys, commandArgs := c.split()
	return Call{
		Script: conditions.script(parts{source, c.Script}, conditionBegins, conditionEnds+"return (function(KEYS, ARGV)\n"+c.Script.text+"\nend)(stepKeys, stepArgs)"),
		Keys:   slices.Concat(keys, commandKeys),
		Args:   slices.Concat(args, commandArgs, []string{strconv.Itoa(len(commandKeys)), strconv.Itoa(len(commandArgs))}),
	}
}
