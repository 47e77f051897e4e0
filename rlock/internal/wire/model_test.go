package wire_test

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// The model of package rlock/internal/explore/server against the scripts. Each round is a lock of
// its own, and random commands.
func TestTheModelIsTheScripts(t *testing.T) {
	manyCommands(t)
	commands := 60_000
	if testing.Short() {
		commands = 600
	}
	gc := debug.SetGCPercent(400) // most of the work is short-lived garbage
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	for _, k := range modelKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			compare(t, newEmbedded(t), k).rounds(t, commands/len(modelKinds))
		})
	}
}

func TestTheModelIsTheScriptsOnAServer(t *testing.T) {
	manyCommands(t)
	commands := 20_000
	if testing.Short() {
		commands = 2_000
	}
	p := newProcess(t)
	for _, k := range modelKinds {
		t.Run(k.name, func(t *testing.T) {
			compare(t, p, k).rounds(t, commands/len(modelKinds))
		})
	}
}

func (c *comparison) rounds(t *testing.T, commands int) {
	for n := uint64(0); commands > 0; n++ {
		k, difference := c.round(n)
		require.Empty(t, difference, "round %d", n)
		commands -= k
	}
}

// manyCommands skips a test that sends thousands of commands, one after the other, under the race
// detector.
func manyCommands(t *testing.T) {
	t.Helper()
	if redistest.UnderRace {
		t.Skip("not with the race detector")
	}
}

// A comparison is one kind of lock on one server, and the model beside it.
type comparison struct {
	*modelKind
	on     subject
	offset time.Duration // how much time has been let pass by advance
	config server.Config

	// Of a round.
	random    *rand.Rand
	server    server.Server
	foreign   foreignSorts           // which foreign clients there are
	shown     map[string]server.Time // the times that Redis has shown last in their hash, by field
	known     []core.Ticket
	resumed   core.Command // the last Resume
	next      [modelClients]uint64
	lined     bool // each ticket has a note, most a line
	log       []string
	tolerance time.Duration
	last      server.Time
	effects   server.Effects
}

// compare returns the comparison of a kind on a server. The scripts of the kind may be replaced
// before its rounds.
func compare(t testing.TB, on subject, k modelKind) *comparison {
	names := inmemory.New() // of a client that only names keys and calls: the test is about another server
	t.Cleanup(names.Close)
	k.redis = connect(t, wire.Options{Redis: names.Options()}, wire.NewID().Prefix)
	k.keys = keysOf(t, k.redis, modelLock, k.kind.Layout)
	for _, s := range []*wire.Script{k.acquire, k.resume, k.step, k.mirror, k.guard, k.release, k.takeover, k.letThrough} {
		_, ok := on.do([]string{"SCRIPT", "LOAD", s.Text()})[0].(string)
		require.True(t, ok, "the script is not accepted")
	}
	k.exact = on.exact()
	return &comparison{modelKind: &k, on: on, config: server.Config{Kind: k.model, Claim: modelClaim, Brief: modelBrief, Silence: modelSilence, Uncounted: k.uncounted, Windows: server.RedisWindows, LineOf: modelLine}}
}

// round runs random commands in a lock of its own. It returns how many, and what differs, "" for
// nothing.
func (c *comparison) round(n uint64) (commands int, difference string) {
	c.start(n)
	for range 24 + c.foreign.events() {
		sent, undecided, difference := c.event()
		commands += sent
		if undecided || difference != "" {
			return commands, difference
		}
	}
	return commands, ""
}

func (c *comparison) start(n uint64) {
	c.on.do([]string{"FLUSHALL"})
	c.random = rand.New(rand.NewPCG(n, 1))
	c.server = server.Server{Config: &c.config}
	c.begins()
	c.resumed = core.Command{}
	c.lined = n%16 == 15
	c.known, c.next, c.log, c.tolerance = nil, [modelClients]uint64{}, nil, 0
	if !c.on.exact() {
		c.tolerance = 2 * time.Millisecond
	}
	for i := range uint32(modelClients) {
		c.listen(i, i < modelClients-1)
	}
}

// event is one random command, or something else that happens. It returns how many commands that
// are, and what command returns.
func (c *comparison) event() (commands int, undecided bool, difference string) {
	if c.foreign.some() && c.random.IntN(3) == 0 {
		return 0, c.foreignEvent(), ""
	}
	switch c.random.IntN(12) {
	case 0:
		c.advance()
	case 1:
		if c.random.IntN(4) == 0 {
			client := uint32(c.random.IntN(modelClients))
			c.listen(client, !c.server.Listens.Has(client))
		}
	default:
		undecided, difference = c.command(c.draw())
		return 1, undecided, difference
	}
	return 0, false, ""
}

func (c *comparison) listen(client uint32, on bool) {
	c.note("client %d listens: %v", client, on)
	c.on.listen(clientName(client), c.keys.GrantChannels()+prefixText(client), on)
	c.server.Listens = c.server.Listens.Without(client)
	if on {
		c.server.Listens = c.server.Listens.With(client)
	}
}

// advance lets time pass, as often as not until a lease is about to end, or has just ended.
func (c *comparison) advance() {
	d := time.Duration(c.random.IntN(3000)) * time.Millisecond
	if c.foreign.some() && c.random.IntN(3) > 0 {
		d = time.Duration(1+c.random.IntN(30)) * time.Millisecond // windows are short
	}
	if ends := append(ends(&c.server), c.windowEnds()...); len(ends) > 0 && c.random.IntN(3) == 0 {
		d = ms(core.Span(ends[c.random.IntN(len(ends))]-c.last)) + time.Duration(c.random.IntN(3)-1)*time.Millisecond
		if !c.on.exact() {
			d += 20 * time.Millisecond
		}
	}
	if d > 0 {
		c.note("%v pass", d)
		c.on.advance(d, &c.keys)
		c.offset += d
		c.last += server.Time(d.Milliseconds())
		if !c.on.exact() {
			c.tolerance += time.Millisecond
		}
	}
}

// ends returns the times at which a key of the lock expires, or a holder's lease.
func ends(s *server.Server) (ends []server.Time) {
	if len(s.Holders) > 0 {
		ends = append(ends, s.Ends)
	}
	for _, h := range s.Holders {
		if h.Ends > 0 {
			ends = append(ends, h.Ends)
		}
	}
	if len(s.Queue)+len(s.Marks) > 0 {
		ends = append(ends, s.QueueEnds)
	}
	if s.Foreign.Memory.Ends > 0 {
		ends = append(ends, s.Foreign.Memory.Ends)
	}
	return ends
}

func (c *comparison) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// command runs one command by both, and returns how they differ. A clock that does not stand still
// shows only between which times Redis ran it: it has to be as the model says for one of them. The
// round is undecided if a key expired at about that time.
func (c *comparison) command(cmd core.Command) (undecided bool, difference string) {
	c.note("%s", commandText(cmd))
	replies := c.on.do(append([][]string{{"TIME"}, c.words(cmd)}, c.looks()...)...)
	began := c.timeOf(replies[0])
	was := c.server
	want := c.expected(cmd, began)
	c.last = began
	got := c.read(cmd, replies[1], replies[2:])
	ended := c.passed(began)
	if c.isUnclear(&was, began, ended) || c.isUnclear(&c.server, began, ended) {
		return true, ""
	}
	first := want
	for at := began; !got.sameAs(want, c.tolerance); want = c.expected(cmd, at) {
		if at++; at > ended {
			if c.isTied(&was) {
				return true, ""
			}
			return false, fmt.Sprintf("%s\nRedis: %v\nmodel: %v", strings.Join(c.log, "\n"), got, first)
		}
		c.server = was
	}
	c.adopt()
	return false, ""
}

// words returns the command as it is sent.
func (c *comparison) words(cmd core.Command) []string {
	if cmd.Op == core.Unmark {
		return []string{"ZREM", c.keys.Queue(), "!" + uuidText(cmd.ID)}
	}
	if cmd.Op == core.None {
		call := c.redis.LetThroughCall(&c.keys, wire.OwnerText(ownerText(cmd.ID, cmd.Owner)+permitsText(cmd.More)), ms(cmd.Lease), wire.OwnerText(ownerText(cmd.Ends.ID, 1)+permitsText(cmd.Ends.More)))
		call.Script = c.letThrough
		return call.Words()
	}
	words := c.call(cmd).Words()
	if keys, _ := strconv.Atoi(words[2]); c.uncounted && cmd.Op > core.Acquire && cmd.Op != core.Write {
		words[3+keys] = "c" + words[3+keys][1:]
	}
	return words
}

// passed reads the clock of the server, and adds the time since began to the tolerance.
func (c *comparison) passed(began server.Time) (ended server.Time) {
	if c.exact {
		return began
	}
	ended = c.now()
	c.tolerance += ms(core.Span(ended - began))
	return ended
}

// isUnclear reports whether something ends at about the times from began to ended.
func (c *comparison) isUnclear(s *server.Server, began, ended server.Time) bool {
	slack := server.Time(c.tolerance.Milliseconds())
	return !c.exact && slices.ContainsFunc(ends(s), func(end server.Time) bool { return began-slack <= end && end <= ended+slack })
}

// isTied reports whether it cannot be known whose lease ends first, which a command names: the ends
// of two differ by no more than the clocks may.
func (c *comparison) isTied(s *server.Server) bool {
	slack := server.Time(c.tolerance.Milliseconds())
	for i, a := range s.Holders {
		for _, b := range s.Holders[:i] {
			if !c.exact && c.model == server.Semaphore && max(a.Ends-b.Ends, b.Ends-a.Ends) <= slack {
				return true
			}
		}
	}
	return false
}

// expected runs a command at that time by the model.
func (c *comparison) expected(cmd core.Command, at server.Time) snapshot {
	c.effects = server.Effects{}
	if cmd.Op == core.None {
		passage := c.server.LetThrough(cmd.ID, cmd.Lease, []core.ID{cmd.Ends.ID}, at, &c.effects)
		s := c.snapshotOf(&c.server, cmd, core.Reply{}, &c.effects, at)
		s.answer = strconv.Itoa(passage)
		return s
	}
	reply := c.server.Do(cmd, at, &c.effects)
	return c.snapshotOf(&c.server, cmd, reply, &c.effects, at)
}

func commandText(c core.Command) string {
	names := [...]string{"none", "acquire", "resume", "join", "look", "mirror", "leave", "step", "unmark", "write"}
	text := fmt.Sprintf("%s %s for %d", names[c.Op], member(c.Ticket), c.Lease)
	if c.Joins != (core.Ticket{}) {
		text += ", " + member(c.Joins) + " joins"
	}
	if c.Op == core.Mirror {
		text += fmt.Sprintf(", exact %v, writes %d, reads %v", c.Exact, c.Writes, c.Reads)
	}
	if c.Op == core.Resume {
		text += ", of " + ownerText(c.Passed, 0)
	}
	if c.Bounded {
		text += fmt.Sprintf(", with %d tickets at most", c.Most)
	}
	if c.Carries {
		text += ", with a guarded write"
	}
	if c.Polling {
		text += ", polling"
	}
	if c.Heard {
		text += ", heard"
	}
	if c.Takes {
		text += ", takes over"
	}
	if c.Ends != (core.Holding{}) {
		text += ", from " + ownerText(c.Ends.ID, 1)
	}
	if c.Permits > 0 {
		text += fmt.Sprintf(", %d permits", c.Permits)
	}
	return text
}

// A modelKind is a kind of lock in a comparison: the model of it, and its scripts, which a test may
// replace.
type modelKind struct {
	name                          string
	model                         server.Kind
	kind                          *wire.Kind
	acquire, resume, step, mirror *wire.Script
	takeover                      *wire.Script // the step of a ticket that takes the lock over
	letThrough                    *wire.Script
	guard                         *wire.Script
	release                       *wire.Script // of a release that carries a guarded write
	fenced                        bool
	takes                         bool // tickets take the lock over
	uncounted                     bool // in a Cluster with plain pub/sub no node knows all subscribers

	redis *wire.Redis // writes the calls
	keys  wire.Keys
	exact bool // times are exact
}

var (
	modelPlain  = newModelKind("plain", server.Plain, wire.Plain, "return 'it'")
	modelFenced = newModelKind("fenced", server.Plain, wire.Fenced, "return 'it'")
	modelRW     = newModelKind("read-write", server.ReadWrite, wire.ReadWrite, "return 1")
	modelPermit = newModelKind("permits", server.Semaphore, wire.Semaphore, "return 1")

	modelPlainUncounted = modelPlain.inACluster()
	modelRWUncounted    = modelRW.inACluster()

	takenPlain  = modelPlain.takenOver()
	takenFenced = modelFenced.takenOver()
	takenRW     = modelRW.takenOver()
	takenPermit = modelPermit.takenOver()

	modelKinds = []modelKind{modelPlain, modelFenced, modelRW, modelPermit, modelPlainUncounted, modelRWUncounted, takenPlain, takenFenced, takenRW, takenPermit}
)

// newModelKind returns a kind, of whose releases some carry a guarded write of that source.
func newModelKind(name string, model server.Kind, kind *wire.Kind, source string) modelKind {
	k := modelKind{name: name, model: model, kind: kind, fenced: kind == wire.Fenced}
	k.acquire, k.resume, k.step, k.mirror = kind.Scripts()
	k.takeover, k.letThrough = kind.Takeover(), wire.LetThrough
	k.guard, k.release = kind.Guard().Script("return 1"), kind.Guard().ReleaseScript(source, k.step)
	return k
}

func (k modelKind) takenOver() modelKind {
	k.name, k.takes = k.name+", taken over", true
	return k
}

func (k modelKind) inACluster() modelKind {
	k.name, k.uncounted = k.name+" in a Cluster with plain pub-sub", true
	return k
}

const (
	modelClaim   = 2000
	modelBrief   = 500
	modelSilence = 60_000
	modelClients = 4
	modelPermits = 2
)

// call returns the call that a client sends for the command. No ticket asks for the clock, which
// the model has not.
func (k *modelKind) call(c core.Command) wire.Call {
	x := &wire.Exchange{Cmd: c, Kind: k.kind, Keys: &k.keys, Write: wire.NewWrite("", nil, nil)}
	x.Cmd.Lease *= core.Span(time.Millisecond)
	x.Text, x.Passed = wire.OwnerText(ownerText(c.ID, c.Owner)+permitsText(c.More)), wire.OwnerText(ownerText(c.Passed, 0)+permitsText(c.More))
	if c.Joins != (core.Ticket{}) {
		x.Joins = wire.OwnerText(ownerText(c.Joins.ID, c.Joins.Owner) + permitsText(c.Joins.More))
	}
	if c.Ends != (core.Holding{}) {
		x.Ends = wire.OwnerText(ownerText(c.Ends.ID, 1) + permitsText(c.Ends.More))
	}
	call := k.redis.CallOf(x)
	//exhaustive:ignore
	switch c.Op {
	case core.Acquire:
		call.Script = k.acquire
	case core.Resume:
		call.Script = k.resume
	case core.Mirror:
		call.Script = k.mirror
	case core.Write:
		call.Script = k.guard
	default:
		switch call.Script = k.step; {
		case c.Takes && c.Op != core.Leave && c.Op != core.Step:
			call.Script = k.takeover
		case c.Carries:
			call.Script = k.release
		}
	}
	return call
}

// fresh returns a tenure that is new.
func (c *comparison) fresh(client uint32) core.Ticket {
	if c.next[client]++; c.lined {
		c.next[client] += 2
	}
	t := core.Ticket{ID: core.ID{Client: client, N: c.next[client]}, Owner: 1, Polls: c.random.IntN(4) == 0}
	if c.model == server.ReadWrite && c.random.IntN(2) == 0 {
		t.Mode = core.Shared
	}
	t.Answerable = c.model == server.Plain && t.ID.N%4 == 2
	t.Brief = t.Mode == core.Alone && !t.Polls && t.ID.N%4 == 1
	if c.model == server.Semaphore {
		t.More = [...]int32{0, 0, 1, 0, 1, 2}[t.ID.N%6]
	}
	if c.takes && t.ID.N%2 == 0 && t.Mode == core.Alone { // some with a line
		t.Takes, t.Answerable, t.Brief = true, false, false
	}
	c.known = append(c.known, t)
	return t
}

// some returns a tenure, most often one that is in the queue or in the lock.
func (c *comparison) some() core.Ticket {
	if len(c.known) == 0 {
		return c.fresh(uint32(c.random.IntN(modelClients)))
	}
	isThere := func(t core.Ticket) bool {
		return slices.ContainsFunc(c.server.Queue, func(q core.Ticket) bool { return q.ID == t.ID }) || slices.ContainsFunc(c.server.Holders, func(h server.Holder) bool { return h.ID == t.ID })
	}
	for range 8 {
		if t := c.known[c.random.IntN(len(c.known))]; isThere(t) {
			return t
		}
	}
	return c.known[c.random.IntN(len(c.known))]
}

// draw returns a random command. Of the releases a third carry a guarded write.
func (c *comparison) draw() core.Command {
	if c.takes && len(c.server.Holders) > 0 && c.random.IntN(12) == 0 {
		return c.lettingThrough()
	}
	cmd := c.drawn()
	if c.takes {
		cmd = c.takingOver(cmd)
	}
	cmd.Carries = cmd.Op == core.Leave && !c.uncounted && (uint64(cmd.ID.Client)+cmd.ID.N)%3 == 0
	return cmd
}

// takingOver makes the command take out a holder, if it is a look of a ticket that takes the lock
// over, and ask for one if it is a mirror.
func (c *comparison) takingOver(cmd core.Command) core.Command {
	if cmd.Joins.Takes { // such a ticket joins by a command of its own
		cmd.Joins.Takes = false
		c.known[len(c.known)-1] = cmd.Joins
	}
	if isLet := slices.ContainsFunc(c.server.Queue, func(q core.Ticket) bool { return q.ID == cmd.ID && q.Takes }); cmd.Op == core.Look && isLet {
		cmd.Takes = cmd.Takes || c.random.IntN(2) == 0 // its client may know
	}
	cmd.Heeds = cmd.Op == core.Mirror && cmd.Asks && c.random.IntN(2) == 0
	if n := len(c.server.Holders); cmd.Op == core.Look && cmd.Takes && n > 0 && c.random.IntN(2) == 0 {
		if h := c.server.Holders[c.random.IntN(n)]; h.ID != cmd.ID && (h.Owner == 1 || server.IsForeign(h.ID)) {
			cmd.Ends = core.Holding{ID: h.ID, More: h.More}
		}
	}
	return cmd
}

// lettingThrough returns what stands for let_through.lua, which is no command of package core: the
// ticket is let through past the holder Ends, with the grace Lease.
func (c *comparison) lettingThrough() core.Command {
	h := c.server.Holders[c.random.IntN(len(c.server.Holders))]
	return core.Command{Op: core.None, Ticket: c.some(), Ends: core.Holding{ID: h.ID, More: h.More}, Lease: core.Span(c.random.IntN(3)) * 1000}
}

func (c *comparison) drawn() core.Command {
	r := c.random
	cmd := core.Command{Lease: core.Span([]int{1000, 5000, 30_000}[r.IntN(3)]), Asks: r.IntN(2) == 0}
	if c.fenced {
		cmd.Tokens = 1 + r.Uint64N(3)
	}
	if c.model == server.Semaphore {
		cmd.Permits = modelPermits
		if r.IntN(10) == 0 {
			cmd.Permits = 1 + r.IntN(3)
		}
	}
	cmd.Polling = c.foreign.poll && r.IntN(4) > 0
	client := uint32(r.IntN(modelClients))
	if again := c.resumed; again.Op != core.None { // as often as not it had no answer
		if c.resumed.Op = core.None; r.IntN(2) == 0 {
			again.Lease = cmd.Lease
			return again
		}
	}
	switch r.IntN(24) {
	case 0, 1, 2:
		cmd.Op, cmd.Ticket = core.Acquire, c.fresh(client)
	case 3:
		cmd.Op, cmd.Ticket = core.Acquire, c.some()
	case 4, 5, 6, 7:
		cmd.Op, cmd.Ticket = core.Join, c.fresh(client)
		if cmd.ID.N%3 == 1 {
			cmd.Bounded, cmd.Most = true, int(cmd.ID.N/3)%4
		}
	case 8:
		cmd.Op, cmd.Ticket = core.Join, c.some()
		if c.isChanged(cmd.Ticket) {
			cmd.Op = core.Look
		}
	case 9, 10, 11:
		cmd.Op, cmd.Ticket = core.Look, c.some()
		cmd.Heard = c.foreign.some() && r.IntN(8) == 0
	case 12, 13, 14:
		cmd.Op, cmd.Ticket = core.Leave, c.some()
	case 15, 16:
		cmd.Op, cmd.Ticket = core.Leave, c.some()
		cmd.Joins = c.fresh(cmd.ID.Client)
	case 17, 18:
		cmd.Op, cmd.Ticket = core.Mirror, c.some()
		cmd.Writes, cmd.Exact = 1+r.IntN(2), r.IntN(3) == 0
		cmd.Asks = cmd.Asks || cmd.Exact && r.IntN(2) == 0
		switch {
		case c.model == server.ReadWrite:
			if cmd.Reads = cmd.Mode == core.Shared || r.IntN(2) == 0; cmd.Reads && r.IntN(4) > 0 {
				cmd.Writes = 0
			}
			cmd.Owner += core.OwnerID(r.IntN(2))
		case c.model == server.Plain:
			cmd.Owner += core.OwnerID(r.IntN(2)) // handed off
		}
	case 19:
		if passed := c.passedOn(); r.IntN(3) > 0 && len(passed) > 0 { // some command resumes one that was passed on, as a rule
			t := passed[r.IntN(len(passed))]
			cmd.Op, cmd.Passed, cmd.Asks = core.Resume, t.ID, true
			if cmd.Ticket = c.fresh(client); t.More != cmd.More {
				cmd.More = t.More
				c.known[len(c.known)-1] = cmd.Ticket
			}
			if other := c.some(); r.IntN(3) == 0 && !slices.Contains(c.server.Queue, other) { // a ticket enters by one sort of command
				cmd.Ticket = other
			}
			if cmd.Mode = t.Mode; r.IntN(8) == 0 {
				cmd.Passed = c.some().ID
			}
			c.resumed = cmd
			break
		}
		cmd.Op, cmd.Ticket = core.Mirror, c.some()
		if cmd.Writes = 1; cmd.Mode == core.Shared {
			cmd.Writes, cmd.Reads = 0, true
		}
		cmd.Owner, cmd.Exact = 0, true
	case 20, 21:
		cmd.Op, cmd.Ticket = core.Write, c.some()
		if c.model == server.ReadWrite {
			cmd.Mode = core.Mode(r.IntN(2))
		}
	default:
		cmd.Op = core.Step
		if r.IntN(3) == 0 {
			cmd.Op, cmd.Ticket = core.Unmark, c.some()
		}
	}
	return cmd
}

// passedOn returns the tenures that were passed on.
func (c *comparison) passedOn() (ts []core.Ticket) {
	for _, h := range c.server.Holders {
		if h.Owner == 0 && !server.IsForeign(h.ID) {
			t := core.Ticket{ID: h.ID, More: h.More}
			if c.model == server.ReadWrite && !h.Writes {
				t.Mode = core.Shared
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// isChanged reports whether Redis shows the tenure with another owner, or otherwise than it was
// asked for. A join that entered it is long executed then, and none is sent twice.
func (c *comparison) isChanged(t core.Ticket) bool {
	mine := func(h server.Holder) bool { return h.ID == t.ID }
	return slices.ContainsFunc(c.server.Holders, mine) && !slices.ContainsFunc(c.server.Holders, func(h server.Holder) bool {
		return mine(h) && h.Owner == t.Owner && (c.model != server.ReadWrite || h.Writes == (t.Mode == core.Alone))
	})
}
