package wire_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A modelKind is a kind of lock in a comparison: the model of it and the scripts.
type modelKind struct {
	name                  string
	model                 server.Kind
	acquire, step, mirror *wire.Script
	resume, guard         *wire.Script
	layout                wire.Layout
	fenced                bool
	uncounted             bool // in a Cluster with plain pub/sub no node knows all subscribers

	redis *wire.Redis // writes the steps
	keys  wire.Keys
	exact bool // times are exact
}

var (
	modelPlain  = modelKind{name: "plain", model: server.Plain, acquire: wire.Acquire, resume: wire.Resume, step: wire.PlainStep, mirror: wire.Mirror, guard: wire.PlainGuard.Script("return 1"), layout: withFair(layouts[0])}
	modelFenced = modelKind{name: "fenced", model: server.Plain, acquire: wire.Acquire, resume: wire.Resume, step: wire.PlainStep, mirror: wire.Mirror, guard: wire.PlainGuard.Script("return 1"), layout: withFair(layouts[1]), fenced: true}
	modelRW     = modelKind{name: "read-write", model: server.ReadWrite, acquire: wire.ReadWriteAcquire, resume: wire.Resume, step: wire.ReadWriteStep, mirror: wire.ReadWriteMirror, guard: wire.ReadWriteGuard.Script("return 1"), layout: layouts[2]}
	modelPermit = modelKind{name: "permits", model: server.Semaphore, acquire: wire.SemaphoreAcquire, resume: wire.SemaphoreResume, step: wire.SemaphoreStep, mirror: wire.SemaphoreMirror, guard: wire.SemaphoreGuard.Script("return 1"), layout: layouts[3]}

	modelPlainUncounted = modelPlain.inACluster()
	modelRWUncounted    = modelRW.inACluster()

	modelKinds = []modelKind{modelPlain, modelFenced, modelRW, modelPermit, modelPlainUncounted, modelRWUncounted}
)

func (k modelKind) inACluster() modelKind {
	k.name, k.uncounted = k.name+" in a Cluster with plain pub-sub", true
	return k
}

const (
	modelClaim   = 2000
	modelSilence = 60_000
	modelClients = 4
	modelPermits = 2
)

// call returns the call that a client sends for the command.
func (k *modelKind) call(c core.Command) wire.Call {
	lease := strconv.FormatInt(int64(c.Lease), 10)
	owner := ownerText(c.ID, c.Owner)
	number := ""
	switch {
	case k.fenced:
		number = strconv.FormatUint(c.Tokens, 10)
	case k.model == server.Semaphore:
		number = strconv.Itoa(c.Permits)
	}
	n := &k.keys
	switch c.Op {
	case core.Acquire:
		switch {
		case k.fenced:
			return k.acquire.Call(3, n.Key, n.Queue(), n.Extra(), lease, owner, number)
		case k.model == server.ReadWrite:
			mode := "write"
			if c.Mode == core.Shared {
				mode = "read"
			}
			return k.acquire.Call(4, n.Key, n.Queue(), n.Extra(), n.Extra()+":"+owner+":rwlock_timeout:1", lease, owner, mode)
		case k.model == server.Semaphore:
			return k.acquire.Call(2, n.Key, n.Queue(), lease, owner, number)
		}
		return k.acquire.Call(2, n.Key, n.Queue(), lease, owner)
	case core.Resume:
		from := ownerText(c.Passed, 0)
		switch {
		case k.model != server.ReadWrite:
			return k.resume.Call(2, n.Key, n.Queue(), lease, from, owner)
		case c.Mode == core.Alone:
			return k.resume.Call(2, n.Key, n.Queue(), lease, from+":write", owner+":write")
		}
		return k.resume.Call(4, n.Key, n.Queue(), n.Extra()+":"+from+":rwlock_timeout:1", n.Extra()+":"+owner+":rwlock_timeout:1", lease, from, owner)
	case core.Mirror:
		var asks wire.Asker
		if c.Asks {
			asks = k.redis.Asks(n, c.Polling)
		}
		family, writes := k.redis.Family(), strconv.Itoa(c.Writes)
		switch k.model {
		case server.ReadWrite:
			keys := append([]string{n.Key, n.Extra(), n.Channel()}, asks.Keys...)
			return wire.Call{Script: k.mirror, Keys: keys, Args: []string{family, lease, owner, writes, wire.Flag(c.Reads), asks.How}}
		case server.Semaphore:
			return wire.Call{Script: k.mirror, Keys: []string{n.Key}, Args: []string{lease, owner}}
		}
		keys := append([]string{n.Key}, asks.Keys...)
		return wire.Call{Script: k.mirror, Keys: keys, Args: []string{family, lease, owner, writes, asks.How, asks.Channel}}
	}
	if c.Op == core.Write {
		call := wire.Call{Script: k.guard, Keys: []string{n.Key}, Args: []string{owner}}
		if k.model == server.ReadWrite {
			call.Keys, call.Args = []string{n.Extra(), n.Key}, []string{map[core.Mode]string{core.Alone: "x", core.Shared: "s"}[c.Mode], owner}
		}
		return call
	}
	step := wire.Step{Lease: lease, Number: number, Polls: c.Polling, Heard: c.Heard}
	switch c.Op {
	case core.Join:
		step.Join = member(c.Ticket)
	case core.Look:
		step.Look = member(c.Ticket)
	case core.Leave:
		step.Leave, step.Join = member(c.Ticket), member(c.Joins)
	}
	return k.redis.Step(k.step, n, step)
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
	log       []string
	tolerance time.Duration
	last      server.Time
	effects   server.Effects
}

// compare returns the comparison of a kind on a server. The scripts of the kind may be replaced before its rounds.
func compare(t testing.TB, on subject, k modelKind) *comparison {
	k.redis = open(t)
	var err error
	k.keys, err = k.redis.KeysOf(modelLock, k.layout, "")
	require.NoError(t, err)
	for _, s := range []*wire.Script{k.acquire, k.resume, k.step, k.mirror, k.guard} {
		_, ok := on.do([]string{"SCRIPT", "LOAD", s.Text()})[0].(string)
		require.True(t, ok, "the script is not accepted")
	}
	k.exact = on.exact()
	return &comparison{modelKind: &k, on: on, config: server.Config{Kind: k.model, Claim: modelClaim, Silence: modelSilence, Uncounted: k.uncounted, Turns: server.RedisTurns}}
}

// round runs random commands in a lock of its own. It returns how many, and what differs, "" for nothing.
func (c *comparison) round(n uint64) (commands int, difference string) {
	c.on.do([]string{"FLUSHALL"})
	c.random = rand.New(rand.NewPCG(n, 1))
	c.server = server.Server{Config: &c.config}
	c.begins()
	c.resumed = core.Command{}
	c.known, c.next, c.log, c.tolerance = nil, [modelClients]uint64{}, nil, 0
	if !c.on.exact() {
		c.tolerance = 2 * time.Millisecond
	}
	for i := range uint32(modelClients) {
		c.listen(i, i < modelClients-1)
	}
	for range 24 + c.foreign.events() {
		if c.foreign.some() && c.random.IntN(3) == 0 {
			if c.foreignEvent() {
				return commands, ""
			}
			continue
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
			commands++
			if undecided, difference := c.command(c.draw()); undecided || difference != "" {
				return commands, difference
			}
		}
	}
	return commands, ""
}

func (c *comparison) listen(client uint32, on bool) {
	c.note("client %d listens: %v", client, on)
	c.on.listen(clientName(client), c.keys.Turns()+prefixText(client), on)
	c.server.Listens = c.server.Listens.Without(client)
	if on {
		c.server.Listens = c.server.Listens.With(client)
	}
}

// advance lets time pass, as often as not until a lease is about to end, or has just ended.
func (c *comparison) advance() {
	d := time.Duration(c.random.IntN(3000)) * time.Millisecond
	if c.foreign.some() && c.random.IntN(3) > 0 {
		d = time.Duration(1+c.random.IntN(30)) * time.Millisecond // turns are short
	}
	if ends := append(ends(&c.server), c.turnEnds()...); len(ends) > 0 && c.random.IntN(3) == 0 {
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

// fresh returns a tenure that is new.
func (c *comparison) fresh(client uint32) core.Ticket {
	c.next[client]++
	t := core.Ticket{ID: core.ID{Client: client, Lingers: c.random.IntN(3) == 0, N: c.next[client]}, Owner: 1, Polls: c.random.IntN(4) == 0}
	if c.model == server.ReadWrite && c.random.IntN(2) == 0 {
		t.Mode = core.Shared
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
		return slices.Contains(c.server.Queue, t) || slices.ContainsFunc(c.server.Holders, func(h server.Holder) bool { return h.ID == t.ID })
	}
	for range 8 {
		if t := c.known[c.random.IntN(len(c.known))]; isThere(t) {
			return t
		}
	}
	return c.known[c.random.IntN(len(c.known))]
}

// draw returns a random command.
func (c *comparison) draw() core.Command {
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
		cmd.Writes = 1 + r.IntN(2)
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
			cmd.Op, cmd.Passed = core.Resume, t.ID
			if cmd.Ticket = c.fresh(client); r.IntN(3) == 0 {
				cmd.Ticket = c.some()
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
		cmd.Owner = 0
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
			t := core.Ticket{ID: h.ID}
			if c.model == server.ReadWrite && !h.Writes {
				t.Mode = core.Shared
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// isChanged reports whether Redis shows the tenure with another owner, or otherwise than it was asked for. A join that
// entered it is long executed then, and none is sent twice.
func (c *comparison) isChanged(t core.Ticket) bool {
	mine := func(h server.Holder) bool { return h.ID == t.ID }
	return slices.ContainsFunc(c.server.Holders, mine) && !slices.ContainsFunc(c.server.Holders, func(h server.Holder) bool {
		return mine(h) && h.Owner == t.Owner && (c.model != server.ReadWrite || h.Writes == (t.Mode == core.Alone))
	})
}

// command runs one command by both, and returns how they differ. A clock that does not stand still shows only between which
// times Redis ran it: it has to be as the model says for one of them. The round is undecided if a key expired at about
// that time.
func (c *comparison) command(cmd core.Command) (undecided bool, difference string) {
	c.note("%s", commandText(cmd))
	words := []string{"ZREM", c.keys.Queue(), "!" + uuidText(cmd.ID)}
	if cmd.Op != core.Unmark {
		words = c.call(cmd).Words()
		if keys, _ := strconv.Atoi(words[2]); c.uncounted && cmd.Op > core.Resume && cmd.Op != core.Write {
			words[3+keys] = "c" + words[3+keys][1:]
		}
	}
	replies := c.on.do(append([][]string{{"TIME"}, words}, c.looks()...)...)
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
			return false, fmt.Sprintf("%s\nRedis: %v\nmodel: %v", strings.Join(c.log, "\n"), got, first)
		}
		c.server = was
	}
	c.adopt()
	return false, ""
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

// expected runs a command at that time by the model.
func (c *comparison) expected(cmd core.Command, at server.Time) snapshot {
	c.effects = server.Effects{}
	reply := c.server.Do(cmd, at, &c.effects)
	return c.snapshotOf(&c.server, cmd, reply, &c.effects, at)
}

func commandText(c core.Command) string {
	names := [...]string{"none", "acquire", "resume", "join", "look", "mirror", "leave", "step", "unmark", "write"}
	text := fmt.Sprintf("%s %s%s for %d", names[c.Op], member(c.Ticket).Mode, member(c.Ticket).Ticket, c.Lease)
	if c.Joins != (core.Ticket{}) {
		text += ", " + member(c.Joins).Mode + member(c.Joins).Ticket + " joins"
	}
	if c.Op == core.Mirror {
		text += fmt.Sprintf(", writes %d, reads %v", c.Writes, c.Reads)
	}
	if c.Op == core.Resume {
		text += ", of " + ownerText(c.Passed, 0)
	}
	if c.Polling {
		text += ", polling"
	}
	if c.Heard {
		text += ", heard"
	}
	if c.Permits > 0 {
		text += fmt.Sprintf(", %d permits", c.Permits)
	}
	return text
}

// timeOf reads the answer to TIME, in milliseconds.
func (c *comparison) timeOf(reply any) server.Time {
	now := reply.([]any)
	s, _ := strconv.ParseInt(now[0].(string), 10, 64)
	us, _ := strconv.ParseInt(now[1].(string), 10, 64)
	at := s*1000 + us/1000
	if !c.on.exact() {
		at += c.offset.Milliseconds()
	}
	return server.Time(at)
}

// looks returns the commands that read all that is compared.
func (c *comparison) looks() [][]string {
	lock := []string{"HGETALL", modelLock}
	if c.model == server.Semaphore {
		lock = []string{"ZRANGE", modelLock, "0", "-1", "WITHSCORES"}
	}
	looks := [][]string{lock, {"PTTL", modelLock}, {"ZRANGE", c.keys.Queue(), "0", "-1"}, {"PTTL", c.keys.Queue()}, {"KEYS", "*"}}
	looks = append(looks, []string{"GET", c.keys.Extra()}, []string{"HGETALL", c.keys.Foreign()}, []string{"PTTL", c.keys.Foreign()})
	return append(looks, []string{"LRANGE", c.keys.FairQueue(), "0", "-1"}, []string{"ZSCORE", c.keys.FairTimes(), "rlock:0"})
}

var idOfOwner = regexp.MustCompile(`(-[0-9a-f]{12}):\d+`)

// read makes a snapshot of what Redis has after a command.
func (c *comparison) read(cmd core.Command, answer any, looks []any) (n snapshot) {
	left := func(ms int) { n.times = append(n.times, time.Duration(ms)*time.Millisecond) }
	all, _ := looks[0].([]any)
	n.answer, n.times = c.answer(cmd, answer, func(uuid string) bool {
		return slices.ContainsFunc(all, func(field any) bool { return strings.HasPrefix(field.(string), uuid+":") })
	})
	if len(all) > 0 {
		left(looks[1].(int))
	}
	var fields []string
	for i := 0; i < len(all); i += 2 {
		fields = append(fields, all[i].(string)+" "+all[i+1].(string))
	}
	slices.Sort(fields)
	now := c.last
	for i, f := range fields {
		name, value, _ := strings.Cut(f, " ")
		switch {
		case c.model == server.Semaphore:
			ends, _ := strconv.ParseInt(value, 10, 64)
			if !c.on.exact() {
				ends += c.offset.Milliseconds()
			}
			left(int(max(ends-int64(now), 0)))
			fields[i] = name + " 1"
		case c.model == server.ReadWrite && name != "mode" && !strings.HasSuffix(name, ":write"):
			ttl := c.on.do([]string{"PTTL", c.keys.Extra() + ":" + name + ":rwlock_timeout:1"})[0].(int)
			left(max(ttl, 0))
		}
	}
	queue, _ := looks[2].([]any)
	if len(queue) > 0 {
		left(looks[3].(int))
	}
	n.words = append(fields, "queue")
	var marks []string
	for _, m := range queue {
		if m := m.(string); m[0] == '!' {
			marks = append(marks, m)
		} else {
			n.words = append(n.words, m)
		}
	}
	slices.Sort(marks)
	counter := "0"
	if c.fenced && looks[5] != nil {
		counter = looks[5].(string)
	}
	n.words = append(append(append(n.words, "marks"), marks...), "counter "+counter)
	n.words = append(n.words, c.readForeign(looks[6:], &n)...)
	var messages []string
	for _, m := range c.on.published() {
		messages = append(messages, idOfOwner.ReplaceAllString(m[0]+" "+m[1], "$1"))
	}
	n.words = append(append(n.words, "messages"), byChannel(messages)...)
	for _, key := range looks[4].([]any) {
		if key := key.(string); key != modelLock && key != c.keys.Queue() && key != c.keys.Extra() && key != c.keys.Foreign() && key != c.keys.FairQueue() && key != c.keys.FairTimes() && !strings.HasPrefix(key, c.keys.Extra()+":") {
			n.words = append(n.words, "unknown key "+key)
		}
	}
	return n
}

// answer writes the reply of a script as snapshotOf does. It returns the times in it, too.
func (c *comparison) answer(cmd core.Command, reply any, holds func(uuid string) bool) (text string, times []time.Duration) {
	span := func(ms any) time.Duration { return time.Duration(ms.(int)) * time.Millisecond }
	held := func(left bool, token any, others int) string {
		last, _ := token.(string)
		if last == "" {
			last = "0"
		}
		return fmt.Sprintf("left %v, holds, token %s, others %d", left, last, others)
	}
	denied := func(left bool, found int, ttl, owner any) string {
		name := strings.TrimSuffix(owner.(string), ":write")
		if name != "" {
			times = append(times, span(ttl))
		}
		if len(name) > 14 && name[14] != '8' {
			name = aForeignOne
		}
		return fmt.Sprintf("left %v, found %d, holder %s", left, found, c.holderText(cmd.Op, idOfOwner.ReplaceAllString(name, "$1"), holds))
	}
	switch all := reply.(type) {
	case error:
		if cmd.Op == core.Write && strings.HasPrefix(all.Error(), "RLOCK_FENCED") {
			return "lost", nil
		}
		return all.Error(), nil
	case nil:
		return held(false, nil, 0), nil
	case string:
		return held(false, all, 0), nil
	case int:
		if cmd.Op == core.Resume || cmd.Op == core.Write {
			if all == 0 {
				return "lost", nil
			}
			return held(false, nil, 0), nil
		}
		return fmt.Sprintf("left %v", all > 0 && cmd.Op != core.Unmark), nil
	case []any:
		switch len(all) {
		case 1:
			if all[0] == 0 {
				return "lost", nil
			}
			return held(false, nil, all[0].(int)-1), nil
		case 2:
			return denied(false, 0, all[0], all[1]), times
		case 5, 6:
			if token, ok := all[4].(string); ok {
				text = held(all[0] != 0, token, 0)
			} else {
				text = denied(all[0] != 0, all[4].(int), all[1], all[2])
			}
			if len(all) > 5 {
				text += ", held back"
				times = append(times, span(all[5]))
			}
			if all[3].(int) > 0 {
				times = append(times, span(all[3]))
			}
			return text, times
		}
	}
	return fmt.Sprint("an answer of another form: ", reply), nil
}
