package wire

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// An Exchange is a command of package core about a lock, what Redis knows the lock and the tenure by, and the answer: see
// [Redis.Carry].
type Exchange struct {
	Cmd  core.Command
	Keys *Keys
	Kind *Kind

	Text   string // the owner as Redis knows it: "<uuid>:<id>"
	Joins  string // the same of the ticket that joins with a Leave
	Passed string // of a Resume: the owner that the lock was passed on with

	Track  bool       // of a Mirror: Redis is to tell of changes of the key
	Counts bool       // of a Join and a Look: where does the ticket stand?
	Unless *Condition // of an Acquire or a Join: the condition before it, nil for none
	Write  *Write     // of a Write, and of a Leave that carries one

	// First is set in an Acquire, a Write or a Leave if no other command of the tenure is in flight, or was left behind: it may
	// use a connection of its own. At is when it is sent, then.
	First bool
	At    time.Time

	Answer Answer
}

// A Condition is a Lua source that runs in the step of an Acquire or a Join, before that. A string that it returns is the answer,
// and nothing is taken: see scripts/condition.lua.
type Condition struct {
	Source     string
	Keys, Args []string
}

// A Write is a guarded write on its way, and its result.
type Write struct {
	Source     string
	Keys, Args []string
	Reply      rueidis.RedisMessage
	Fate       Fate  // of one that a release carries
	Err        error // WriteRefused: why

	nonce string // the last argument, which the source does not see: so no source can write the guard's answer
}

// NewWrite copies what the caller may write to once it has left, when the command may still have to be built.
func NewWrite(source string, keys, args []string) *Write {
	return &Write{Source: source, Keys: slices.Clone(keys), Args: slices.Clone(args), nonce: strconv.FormatUint(rand.Uint64(), 36)}
}

// A Fate is what the answer to a release says of the guarded write that it carries.
type Fate uint8

const (
	WriteUnknown Fate = iota // it may have been executed, or may still be
	WriteRan
	WriteFenced  // it was not executed, since the lock does not have the tenure
	WriteRefused // nor, since Redis has refused it
)

// A Kind is what one sort of lock is in Redis: its names, its scripts, and what these are told.
type Kind struct {
	Layout  Layout
	Foreign bool // clients of Redisson may hold the lock

	number               int // among the kinds
	acquire, acquireAll  *Script
	resume, mirror, step *Script
	askAcquire, askStep  *Script // for a ticket that takes an answer, nil where none does
	guard                *Guard

	acquires func(r *Redis, x *Exchange) Call
	resumes  func(r *Redis, x *Exchange) Call
	mirrors  func(r *Redis, part []*Exchange) Call // of locks of one slot
	guards   func(x *Exchange) (keys, args []string)
}

// The kinds of locks. A fair lock is a plain one in Redis.
var (
	Plain     = hashKind(0, "")
	Fenced    = hashKind(1, "redisson_lock_token:")
	ReadWrite = &Kind{
		Layout:  Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
		Foreign: true, number: 2,
		acquire: ReadWriteAcquire, acquireAll: ReadWriteAcquireAll, resume: Resume, mirror: ReadWriteMirror, step: ReadWriteStep, guard: ReadWriteGuard,
		acquires: acquireReadWrite, resumes: resumeReadWrite, mirrors: mirrorReadWrite, guards: guardReadWrite,
	}
	Semaphore = &Kind{
		Layout:  Layout{Channel: "rlock_grants:semaphore:", Suffix: "sem"},
		number:  3,
		acquire: SemaphoreAcquire, acquireAll: SemaphoreAcquireAll, resume: SemaphoreResume, mirror: SemaphoreMirror, step: SemaphoreStep, guard: SemaphoreGuard,
		acquires: acquirePermits, resumes: resumePermits, mirrors: mirrorPermits, guards: guardByKey,
	}
)

// hashKind returns a kind of locks that are a hash of one owner. extra begins the name of its second key, "" if it has none.
func hashKind(number int, extra string) *Kind {
	return &Kind{
		Layout:  Layout{Channel: "redisson_lock__channel:", Fair: true, Extra: extra, HasExtra: extra != ""},
		Foreign: true, number: number,
		acquire: Acquire, askAcquire: AskAcquire, acquireAll: AcquireAll, resume: Resume, mirror: Mirror, step: PlainStep, askStep: PlainAskStep, guard: PlainGuard,
		acquires: acquirePlain, resumes: resumePlain, mirrors: mirrorPlain, guards: guardByKey,
	}
}

// call returns the call of a command that is sent by itself.
func (r *Redis) call(x *Exchange) (c Call) {
	//exhaustive:ignore
	switch x.Cmd.Op {
	case core.Acquire:
		c = x.Kind.acquires(r, x)
	case core.Resume:
		return x.Kind.resumes(r, x)
	case core.Mirror:
		return r.mirror([]*Exchange{x})
	case core.Join, core.Look, core.Leave, core.Step:
		c = r.step(x)
	case core.Write:
		keys, args := x.Kind.guards(x)
		w := x.Write
		return Call{Script: x.Kind.guard.Script(w.Source), Keys: slices.Concat(w.Keys, keys), Args: slices.Concat(w.Args, args, []string{w.nonce})}
	default: // which is no call of a script
		panic("wire: a call of a command " + x.Cmd.Op.String())
	}
	if u := x.Unless; u != nil {
		return unless(u, &c)
	}
	if x.Cmd.Carries {
		return x.carrying(&c)
	}
	return c
}

// carrying returns the call of the step with the guarded write.
func (x *Exchange) carrying(step *Call) Call {
	w := x.Write
	keys, args := x.Kind.guards(x)
	stepKeys, stepArgs := step.split()
	return Call{
		Script: x.Kind.guard.Release(w.Source, step.Script), Keys: slices.Concat(w.Keys, keys, stepKeys),
		Args: slices.Concat(w.Args, args, []string{w.nonce}, stepArgs, []string{strconv.Itoa(len(stepKeys)), strconv.Itoa(len(stepArgs))}),
	}
}

// unless returns the call of a condition and of the command c behind it.
func unless(u *Condition, c *Call) Call {
	keys, args := c.split()
	return Call{
		Script: conditions.script(parts{u.Source, c.Script}, conditionBegins, conditionEnds+"return (function(KEYS, ARGV)\n"+c.Script.text+"\nend)(stepKeys, stepArgs)"),
		Keys:   slices.Concat(u.Keys, keys),
		Args:   slices.Concat(u.Args, args, []string{strconv.Itoa(len(keys)), strconv.Itoa(len(args))}),
	}
}

// callOf returns the call for commands that share one, mirrors or acquires of one kind and slot, or for one.
func (r *Redis) callOf(part []*Exchange) Call {
	switch {
	case part[0].Cmd.Op == core.Mirror:
		return r.mirror(part)
	case len(part) == 1:
		return r.call(part[0])
	}
	acquires := make([]Call, len(part))
	for i, x := range part {
		acquires[i] = r.call(x)
	}
	return part[0].Kind.acquireAll.Together(acquires)
}

// step returns the call of a step: see scripts/queue.lua.
func (r *Redis) step(x *Exchange) Call {
	names := x.Keys.names()
	c := Call{Script: x.Kind.step, fair: r.fairRights(names[fairQueueName])}
	if x.Cmd.Takes && x.Cmd.Op != core.Leave || x.Cmd.Joins.Takes {
		c.Script = x.Kind.askStep
	}
	all := append(c.words.all[:0], x.Keys.Key, names[queueName], names[foreignName], names[channelName])
	if c.fair != nil { // at fairKeysAt
		all = append(all, names[fairQueueName], names[fairTimesName])
	}
	if names[extraName] != "" {
		all = append(all, names[extraName])
	}
	c.words.keys = len(all)
	how := r.how(x.Cmd.Polling)
	if x.Cmd.Heard {
		how += "!"
	}
	all = append(all, how)
	leaves, number := x.Cmd.Op == core.Leave, x.number()
	if leaves && x.Joins == "" {
		all = append(all, x.Text)
		if mode := modeOf(x.Cmd.Ticket); number != "" || mode != "x" {
			all = append(all, number, mode)
		}
	} else {
		all = append(all, r.milliseconds(x.Cmd.Lease), number, flag(leaves), flag(x.Joins != "" || x.Cmd.Op == core.Join))
		if x.Cmd.Op != core.Step {
			all = append(all, modeOf(x.Cmd.Ticket)+x.Text)
		}
		if x.Joins != "" {
			all = append(all, modeOf(x.Cmd.Joins)+x.Joins)
		}
		if (x.Counts || x.Cmd.Bounded) && !leaves {
			most := -1
			if x.Cmd.Bounded {
				most = x.Cmd.Most
			}
			all = append(all, strconv.Itoa(most))
		}
	}
	c.words.n = len(all)
	return c
}

// modeOf writes the mode of a ticket as the queue has it.
func modeOf(t core.Ticket) string {
	modes, mode := "xsa", t.Mode
	if t.Polls {
		modes = "XSA"
	}
	if t.Takes {
		mode = core.Shared + 1
	}
	return modes[mode : mode+1]
}

// number writes the number that a kind's part of a script takes: how many permits there are, or how many fencing tokens a grant
// is to reserve; "" for none.
func (x *Exchange) number() string {
	switch {
	case x.Cmd.Permits > 0:
		return strconv.Itoa(x.Cmd.Permits)
	case x.Cmd.Tokens > 0:
		return strconv.FormatUint(x.Cmd.Tokens, 10)
	}
	return ""
}

// flag writes a bool as the scripts take it.
func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// milliseconds writes a lease as the scripts take it.
func (r *Redis) milliseconds(d core.Span) string {
	if time.Duration(d) == r.options.Lease {
		return r.leaseText
	}
	return strconv.FormatInt(max(time.Duration(d).Milliseconds(), 1), 10)
}

// mirrorLease writes the lease of a mirror, which shortens that in Redis only if it says so: see scripts/mirror.lua.
func (r *Redis) mirrorLease(cmd *core.Command) string {
	lease := r.milliseconds(cmd.Lease)
	if cmd.Exact {
		return "=" + lease
	}
	return lease
}

// how says how a script is to count: with or without foreign clients that only poll.
func (r *Redis) how(polls bool) string {
	if polls {
		return r.family + "+"
	}
	return r.family
}

// mirror returns the call of mirrors.
func (r *Redis) mirror(part []*Exchange) Call {
	c := part[0].Kind.mirrors(r, part)
	for _, x := range part {
		if x.Track {
			c.Track = append(c.Track, x.Keys.Key)
		}
	}
	return c
}

// others says how a mirror learns of the others that wait for its lock, if it asks: the arguments of scripts/others.lua, and the
// keys, which it adds to those.
func (r *Redis) others(x *Exchange, keys *[]string) (how, channel string) {
	if !x.Cmd.Asks {
		return "", ""
	}
	n := x.Keys.names()
	how, *keys = "2", append(*keys, n[queueName], n[foreignName])
	if r.fairRights(n[fairQueueName]) != nil {
		how, *keys = "3", append(*keys, n[fairQueueName])
	}
	if x.Cmd.Polling {
		how += "+"
	}
	return how, n[channelName]
}

// A plain lock is a hash of one owner and its count, as Redisson's RLock. A fair lock is one as well, and a fenced lock
// has a counter beside it.

func acquirePlain(r *Redis, x *Exchange) Call {
	script := x.Kind.acquire
	if x.Cmd.Takes {
		script = x.Kind.askAcquire
	}
	if tokens := x.Keys.Extra(); tokens != "" {
		return script.Call(3, x.Keys.Key, x.Keys.Queue(), tokens, r.milliseconds(x.Cmd.Lease), x.Text, x.number())
	}
	return script.Call(2, x.Keys.Key, x.Keys.Queue(), r.milliseconds(x.Cmd.Lease), x.Text)
}

func resumePlain(r *Redis, x *Exchange) Call { return r.resume(x, x.Passed, x.Text) }

// resume returns the call for a lock that is a hash of owners: from and to are the fields of the owner that it was passed on with,
// and of the one that resumes; leases are the keys of the two readers' leases, of a lock that is read.
func (r *Redis) resume(x *Exchange, from, to string, leases ...string) Call {
	n := x.Keys.names()
	c := Call{Script: x.Kind.resume}
	all := append(c.words.all[:0], x.Keys.Key, n[queueName], n[foreignName], n[channelName])
	mode := "x"
	if len(leases) > 0 {
		all, mode = append(all, leases...), "s"
	} else if c.fair = r.fairRights(n[fairQueueName]); c.fair != nil { // at fairKeysAt
		all = append(all, n[fairQueueName], n[fairTimesName])
	}
	c.words.keys = len(all)
	all = append(all, r.how(x.Cmd.Polling), r.milliseconds(x.Cmd.Lease), from, to, mode)
	c.words.n = len(all)
	return c
}

func mirrorPlain(r *Redis, part []*Exchange) Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.family)
	var more []string // keys, of those that ask for others
	for _, x := range part {
		how, channel := r.others(x, &more)
		keys = append(keys, x.Keys.Key)
		args = append(args, r.mirrorLease(&x.Cmd), x.Text, strconv.Itoa(x.Cmd.Writes), how, channel)
	}
	return Call{Script: part[0].Kind.mirror, Keys: append(keys, more...), Args: args}
}

// guardByKey returns what a guarded write looks at: the lock, and the owner in it.
func guardByKey(x *Exchange) (keys, args []string) { return []string{x.Keys.Key}, []string{x.Text} }

// A read-write lock is a hash of the mode, the readers and the writer, and a key for each reader that lives as long as
// its lease, as Redisson's RReadWriteLock. Its two locks are one lock of package core, in two modes.

// leaseKey returns the key of a reader's lease.
func leaseKey(k *Keys, reader string) string { return k.Extra() + ":" + reader + ":rwlock_timeout:1" }

func acquireReadWrite(r *Redis, x *Exchange) Call {
	mode := "write"
	if x.Cmd.Mode == core.Shared {
		mode = "read"
	}
	return x.Kind.acquire.Call(4, x.Keys.Key, x.Keys.Queue(), x.Keys.Extra(), leaseKey(x.Keys, x.Text), r.milliseconds(x.Cmd.Lease), x.Text, mode)
}

func resumeReadWrite(r *Redis, x *Exchange) Call {
	if x.Cmd.Mode == core.Alone {
		return r.resume(x, x.Passed+":write", x.Text+":write")
	}
	return r.resume(x, x.Passed, x.Text, leaseKey(x.Keys, x.Passed), leaseKey(x.Keys, x.Text))
}

func mirrorReadWrite(r *Redis, part []*Exchange) Call {
	keys, args := make([]string, 0, 3*len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.family)
	var more []string // keys, of those that ask for others
	for _, x := range part {
		how, _ := r.others(x, &more)
		keys = append(keys, x.Keys.Key, x.Keys.Extra(), x.Keys.Channel())
		args = append(args, r.mirrorLease(&x.Cmd), x.Text, strconv.Itoa(x.Cmd.Writes), flag(x.Cmd.Reads), how)
	}
	return Call{Script: part[0].Kind.mirror, Keys: append(keys, more...), Args: args}
}

func guardReadWrite(x *Exchange) (keys, args []string) {
	mode := "x"
	if x.Cmd.Mode == core.Shared {
		mode = "s"
	}
	return []string{x.Keys.Extra(), x.Keys.Key}, []string{mode, x.Text}
}

// A semaphore is a sorted set of the owners that have permits, and of the ends of their leases.

func acquirePermits(r *Redis, x *Exchange) Call {
	return x.Kind.acquire.Call(2, x.Keys.Key, x.Keys.Queue(), r.milliseconds(x.Cmd.Lease), x.Text, x.number())
}

func resumePermits(r *Redis, x *Exchange) Call {
	return x.Kind.resume.Call(2, x.Keys.Key, x.Keys.Queue(), r.milliseconds(x.Cmd.Lease), x.Passed, x.Text)
}

func mirrorPermits(r *Redis, part []*Exchange) Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 2*len(part))
	for _, x := range part {
		keys = append(keys, x.Keys.Key)
		args = append(args, r.mirrorLease(&x.Cmd), x.Text)
	}
	return Call{Script: part[0].Kind.mirror, Keys: keys, Args: args}
}

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

// Foreign clients are those of Redisson, which know nothing of the queue: see
// scripts/foreign.lua.

// RedissonPolls says when foreign clients that only poll have windows.
type RedissonPolls int

// The values: see the constants of package rlock.
const (
	RedissonPollsAuto RedissonPolls = iota
	RedissonPollsNever
	RedissonPollsAlways
)

// foreign is a client's knowledge of foreign clients at its server.
type foreign struct {
	fair   fairRights
	spells spells
	// asked is when the server was asked last for Redisson's scripts, as a time after 1970 in
	// nanoseconds, and seen whether it had one.
	asked atomic.Int64
	seen  atomic.Bool
}

// redissonScripts are the SHA1s of the scripts with which clients of Redisson try to take a plain
// lock. Each try leaves its script with the server, also one that is refused. Other versions have
// the texts of these as far as is known; docs/redisson.md says which were looked at.
var redissonScripts = []string{
	"149c5a8bf18676fd99e9e6e24923bd64d9b62f94", // RLock from 3.30.0 on
	"dad0f8d619e548e04f21fb48d50be5034df3adae", // RLock of 3.17.7, and every spin lock
	"9401052d872adfd0179ef8c8e8c028512707629a", // RLock of 3.11.6
}

// How long an answer of the server counts: that it has one, and that it has none.
const (
	seenTime   = time.Minute
	unseenTime = 2 * time.Second
)

// Polls reports whether there may be foreign clients that only poll, and so cannot be counted.
// With RedissonPollsAuto it reports whether the server had a script of Redisson at the last
// look.
func (r *Redis) Polls() bool {
	switch r.options.RedissonPolls {
	case RedissonPollsNever:
		return false
	case RedissonPollsAlways:
		return true
	case RedissonPollsAuto:
		return r.foreign.seen.Load()
	default:
		panic(r.options.RedissonPolls)
	}
}

// LookForRedisson asks the server in the background for scripts of Redisson, unless it did so a
// moment ago. It is called for contended locks only, so an uncontended client sends no such
// command.
func (r *Redis) LookForRedisson(now time.Time) {
	if r.options.RedissonPolls != RedissonPollsAuto {
		return
	}
	f, pause := &r.foreign, unseenTime
	if f.seen.Load() {
		pause = seenTime
	}
	asked := f.asked.Load()
	if now.UnixNano()-asked < int64(pause) || !f.asked.CompareAndSwap(asked, now.UnixNano()) {
		return
	}
	r.Start(func() {
		if seen, ok := r.askForRedisson(); ok {
			f.seen.Store(seen)
		}
	})
}

// askForRedisson reports whether a node has a script of Redisson, if all have said so.
func (r *Redis) askForRedisson() (seen, ok bool) {
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	ok = true
	for _, node := range r.EachNode() {
		r.sent.n.Add(1)
		has, err := node.Do(ctx, node.B().ScriptExists().Sha1(redissonScripts...).Build()).AsIntSlice()
		ok = ok && err == nil
		for _, n := range has {
			seen = seen || n == 1
		}
	}
	return seen, ok || seen
}

// Redisson's fair lock has two keys, which a step declares, and some users have no right to them. A
// server refuses such a user the whole step, before it has begun. The client then sends its steps
// without these keys, and waiters of Redisson's fair lock are not notified of its releases.
const fairKeysAt, fairKeys = 4, 2 // among the keys of a step

// fairRights remembers whether the keys were refused. A nil fairRights is of a call without them.
type fairRights struct{ none atomic.Bool }

// learn reports whether a call with the keys was refused a key by access rules.
func (f *fairRights) learn(reply *rueidis.RedisError) bool {
	if !strings.HasPrefix(reply.Error(), "NOPERM") || !strings.Contains(reply.Error(), "key") || Begun(reply) {
		return false
	}
	f.none.Store(true)
	return true
}

// withoutFair reports whether the error has taught the client that it has no right to the keys of Redisson's fair queue: a
// mirror that was refused is then to be built without them.
func (r *Redis) withoutFair(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && !r.foreign.fair.none.Load() && r.foreign.fair.learn(reply)
}

// fairRights returns nil where no step for the lock with that queue has the keys, "" for none.
func (r *Redis) fairRights(fairQueue string) *fairRights {
	if fairQueue == "" || r.foreign.fair.none.Load() {
		return nil
	}
	return &r.foreign.fair
}
