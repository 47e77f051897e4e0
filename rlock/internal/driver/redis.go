package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func (r *redis) abandonable() bool { return r.Connected() && r.Ordered() }

func (r *redis) hears(n *Name) bool { return r.hub.Confirmed(n.GrantChannel()) }

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

// A command of package core as a call of a script.

// commandFor returns the call for commands that share one, or for one.
func (r *redis) commandFor(part []*exchange) wire.Call {
	switch {
	case len(part) > 1 && part[0].cmd.Op == core.Acquire:
		acquires := make([]wire.Call, len(part))
		for i, c := range part {
			acquires[i] = r.command(c)
		}
		return part[0].kind.acquireAll.Together(acquires)
	case part[0].cmd.Op != core.Mirror:
		return r.command(part[0])
	}
	command := part[0].kind.mirror(r, part)
	for _, c := range part {
		if c.track {
			command.Track = append(command.Track, c.name.Key)
		}
	}
	return command
}

// asks returns how a mirror is told of the others that wait, nothing if it does not ask.
func (r *redis) asks(c *exchange) (a wire.Asker) {
	if c.cmd.Asks {
		a = r.Asks(&c.name.Keys, r.polls(c))
	}
	return a
}

// polls reports whether foreign clients that only poll are to count among those that wait.
func (r *redis) polls(c *exchange) bool { return r.client.leavesWindows(c.name, time.Now()) }

// command returns the call of a command that is sent by itself.
func (r *redis) command(c *exchange) wire.Call {
	//exhaustive:ignore
	switch c.cmd.Op {
	case core.Acquire:
		if c.kind.foreign && r.Polls() {
			r.client.seesAcquire(c.name, time.Now())
		}
		return c.conditioned(c.kind.acquire(r, c))
	case core.Resume:
		return c.kind.resume(r, c)
	case core.Join, core.Look, core.Leave, core.Step:
		return r.step(c)
	default: // other functions build these
		panic("driver: a call of a command " + c.cmd.Op.String())
	}
}

// step returns the call of a step.
func (r *redis) step(c *exchange) wire.Call {
	n := c.name
	s := wire.Step{Lease: r.milliseconds(c.cmd.Lease), Number: number(&c.cmd), Heard: c.cmd.Heard}
	//exhaustive:ignore
	switch c.cmd.Op {
	case core.Join:
		s.Join = member(c.cmd.Ticket, c.text)
	case core.Look:
		s.Look = member(c.cmd.Ticket, c.text)
	case core.Leave:
		s.Leave = member(c.cmd.Ticket, c.text)
		if c.joins != "" {
			s.Join = member(c.cmd.Joins, c.joins)
			s.Lease = r.milliseconds(core.Span(claimLease))
		}
	case core.Step: // which names no ticket
	default:
		panic("driver: a step of a command " + c.cmd.Op.String())
	}
	if s.Counts, s.Most = c.counts, -1; c.cmd.Bounded {
		s.Most = c.cmd.Most
	}
	s.Polls = c.kind.foreign && r.client.seesStep(n, s, time.Now())
	script := c.kind.step
	if c.cmd.Takes && c.cmd.Op != core.Leave || c.cmd.Joins.Takes {
		script = wire.PlainAskStep
	}
	return c.conditioned(r.Step(script, &n.Keys, s))
}

// conditioned puts the condition of the call before the command that it sends.
func (c *exchange) conditioned(command wire.Call) wire.Call {
	if u := c.unless; u != nil {
		return wire.Unless(u.Source, u.Keys, u.Args, &command)
	}
	return command
}

// release takes back what a command was granted, if replicas do not have it.
func (r *redis) release(c *exchange) wire.Call {
	return r.Step(c.kind.step, &c.name.Keys, wire.Step{Number: number(&c.cmd), Leave: member(c.cmd.Ticket, c.text)})
}

// number writes the number that a kind's part of the script takes: how many permits there are, or how many fencing
// tokens a grant is to reserve; "" for none.
func number(cmd *core.Command) string {
	switch {
	case cmd.Permits > 0:
		return strconv.Itoa(cmd.Permits)
	case cmd.Tokens > 0:
		return strconv.FormatUint(cmd.Tokens, 10)
	}
	return ""
}

// milliseconds writes a lease as the scripts take it.
func (r *redis) milliseconds(d core.Span) string {
	if d == core.Span(r.client.Config.Lease) {
		return r.client.leaseText
	}
	return strconv.FormatInt(max(time.Duration(d).Milliseconds(), 1), 10)
}

// mirrorLease returns the lease of a mirror as its script takes it.
func (r *redis) mirrorLease(cmd *core.Command) string {
	lease := r.milliseconds(cmd.Lease)
	if cmd.Exact {
		return wire.Exact(lease)
	}
	return lease
}

// carrying returns the call of the step with the guarded write.
func (r *redis) carrying(c *exchange, step *wire.Call) wire.Call {
	g, w := c.kind.guard(c), c.write
	keys, args := step.Split()
	counts := []string{strconv.Itoa(len(keys)), strconv.Itoa(len(args))}
	return wire.Call{
		Script: g.Release(w.source, step.Script),
		Keys:   slices.Concat(w.keys, g.keys, keys), Args: slices.Concat(w.args, g.args, []string{w.nonce}, args, counts),
	}
}

// Package core knows this client as thisClient, and each other client of rlock as otherClient.
const (
	thisClient  = 1
	otherClient = 2
)

// idOf returns the tenure of an owner in Redis, "<uuid>:<id>", the zero ID for an owner that is none of
// rlock's.
func (c *Client) idOf(owner string) core.ID {
	number, ok := wire.NumberOf(owner)
	if !ok {
		return core.ID{}
	}
	id := core.ID{Client: otherClient, N: number}
	if strings.HasPrefix(owner, c.ID.Prefix) {
		id.Client = thisClient
	}
	return id
}

// textOf returns the owner of a tenure of this client as it stands in Redis, with so many permits beside the first.
func (c *Client) textOf(id core.ID, o core.OwnerID, more int32) string {
	return wire.WithMore(c.ID.Text(id.N, uint64(o)), more)
}

// member is a ticket as it stands in the queue.
func member(t core.Ticket, text string) wire.Member {
	modes, mode := "xsa", t.Mode
	if t.Polls {
		modes = "XSA"
	}
	if t.Takes {
		mode = core.Shared + 1
	}
	return wire.Member{Mode: modes[mode : mode+1], Ticket: text}
}

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
	//exhaustive:ignore
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

// leavesWindows reports whether a command for n, a lock that foreign clients may hold, must leave windows to those
// that only poll. It notes that n is wanted.
func (c *Client) leavesWindows(n *Name, now time.Time) bool {
	c.Redis.LookForRedisson(now)
	return c.Redis.Polls() && c.spells.wanted(n.Key, false, now)
}

// seesStep is leavesWindows for a step.
func (c *Client) seesStep(n *Name, s wire.Step, now time.Time) bool {
	if none := (wire.Member{}); s.Leave == none || s.Join != none {
		return c.leavesWindows(n, now)
	}
	return c.Redis.Polls() && c.spells.wanted(n.Key, true, now)
}

// seesAcquire is leavesWindows for an acquire, which leaves none: it notes one of the name. It is called where foreign clients
// may poll.
func (c *Client) seesAcquire(n *Name, now time.Time) { c.spells.wanted(n.Key, false, now) }
