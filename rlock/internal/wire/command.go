package wire

import (
	"math/rand/v2"
	"slices"
	"strconv"
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
