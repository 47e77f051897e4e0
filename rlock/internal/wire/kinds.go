package wire

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// An Exchange is a command of package core with the names of the lock and the tenure in Redis, and
// its answer: see [Redis.Carry].
type Exchange struct {
	Cmd  core.Command
	Keys *Keys
	Kind *Kind

	Text   OwnerText // the text of the owner
	Joins  OwnerText // the text of the ticket that joins with a Leave, or ""
	Ends   OwnerText // the text of the holder that a Look takes out of the lock, or ""
	Tells  []Telling // the holders that a Look tells that the lock is taken over
	Passed OwnerText // the text of the owner that passed the lock on, which a Resume replaces

	Track  bool       // a Mirror tracks the key
	Awaits bool       // a Mirror tracks the queue
	Counts bool       // a Join or a Look asks for the place of the ticket
	Unless *Condition // the condition of an Acquire or a Join, or nil
	Write  *Write     // the guarded write of a Write, or of a Leave that carries one

	// First is set if no other command of the tenure is in flight, or was left behind, so that this
	// one may use the direct connection. At is the present time.
	First bool
	At    time.Time

	Answer Answer
}

// A Telling tells the client of a holder that the lock is taken over.
type Telling struct {
	Holder OwnerText
	Left   core.Span // the rest of the holder's grace
}

// A Condition is a Lua source that Redis executes before an Acquire or a Join, in the same step. A
// string that it returns is the answer to the call, and the command is not executed: see
// scripts/condition.lua.
type Condition struct {
	Source     string
	Keys, Args []string
}

// A Write is a guarded write and its result.
type Write struct {
	Source     string
	Keys, Args []string
	Reply      rueidis.RedisMessage
	Fate       Fate  // the fate of a write that a release carries
	Err        error // the refusal, if the fate is WriteRefused

	nonce string // a part of the guard's error, which the source cannot know
}

// NewWrite returns a guarded write with copies of keys and args, since the command may be built
// after its caller has left.
func NewWrite(source string, keys, args []string) *Write {
	return &Write{Source: source, Keys: slices.Clone(keys), Args: slices.Clone(args), nonce: strconv.FormatUint(rand.Uint64(), 36)}
}

// A Fate is the fate of a guarded write that a release carries.
type Fate uint8

const (
	WriteUnknown Fate = iota // the write may have been executed, or may still be
	WriteRan                 // the write was executed
	WriteFenced              // not executed, since the tenure does not have the lock
	WriteRefused             // not executed, since Redis refused it
)

// A Kind is the form of one kind of lock in Redis: names, scripts, and the arguments of the
// scripts.
type Kind struct {
	Layout  Layout
	Foreign bool // clients of Redisson may hold such a lock

	index                       int // an index that other kinds do not have
	acquire, acquireAll         *Script
	resume, mirror, step        *Script
	clockedAcquire, clockedStep *Script // the scripts of a ticket that takes an answer; nil if the kind has none
	takeover                    *Script // the step of a ticket that takes the lock over
	guard                       *Guard

	acquires func(r *Redis, x *Exchange) Call
	resumes  func(r *Redis, x *Exchange) Call
	mirrors  func(r *Redis, part []*Exchange) Call // the call for locks of one slot
	guards   func(x *Exchange) (keys, args []string)
}

// The kinds of locks. A fair lock is a plain one in Redis.
var (
	Plain     = hashKind(0, "")
	Fenced    = hashKind(1, "redisson_lock_token:")
	ReadWrite = &Kind{
		Layout:  Layout{Channel: "redisson_rwlock:", HasExtra: true, Suffix: "rw"},
		Foreign: true, index: 2,
		acquire: ReadWriteAcquire, acquireAll: readWriteAcquireAll, resume: Resume, mirror: ReadWriteMirror, step: ReadWriteStep, takeover: readWriteTakeover, guard: readWriteGuard,
		acquires: acquireReadWrite, resumes: resumeReadWrite, mirrors: mirrorReadWrite, guards: guardReadWrite,
	}
	Semaphore = &Kind{
		Layout:  Layout{Channel: "rlock_grants:semaphore:", Suffix: "sem"},
		index:   3,
		acquire: SemaphoreAcquire, acquireAll: semaphoreAcquireAll, resume: SemaphoreResume, mirror: SemaphoreMirror, step: semaphoreStep, takeover: semaphoreTakeover, guard: semaphoreGuard,
		acquires: acquirePermits, resumes: resumePermits, mirrors: mirrorPermits, guards: guardByKey,
	}
)

// hashKind returns the kind of a lock that is a hash of one owner. extra begins the name of the
// lock's second key, "" for none.
func hashKind(index int, extra string) *Kind {
	return &Kind{
		Layout:  Layout{Channel: "redisson_lock__channel:", Fair: true, Extra: extra, HasExtra: extra != ""},
		Foreign: true, index: index,
		acquire: Acquire, clockedAcquire: clockedAcquire, acquireAll: AcquireAll, resume: Resume, mirror: Mirror, step: PlainStep, clockedStep: plainClockedStep, takeover: plainTakeover, guard: plainGuard,
		acquires: acquirePlain, resumes: resumePlain, mirrors: mirrorPlain, guards: guardByKey,
	}
}

// callFor returns the call of a command that is sent alone.
func (r *Redis) callFor(x *Exchange) (c Call) {
	//exhaustive:ignore
	switch x.Cmd.Op {
	case core.Acquire:
		c = x.Kind.acquires(r, x)
	case core.Resume:
		return x.Kind.resumes(r, x)
	case core.Mirror:
		return r.mirrorCall([]*Exchange{x})
	case core.Join, core.Look, core.Leave, core.Step:
		c = r.stepCall(x)
	case core.Write:
		keys, args := x.Kind.guards(x)
		w := x.Write
		return Call{Script: x.Kind.guard.Script(w.Source), Keys: slices.Concat(w.Keys, keys), Args: slices.Concat(w.Args, args, []string{w.nonce})}
	default: // no call of a script
		panic("wire: a call of a command " + x.Cmd.Op.String())
	}
	if u := x.Unless; u != nil {
		return conditionCall(u, &c)
	}
	if x.Cmd.Carries {
		return x.carryingCall(&c)
	}
	return c
}

// carryingCall returns the call of a step that carries the guarded write.
func (x *Exchange) carryingCall(step *Call) Call {
	w := x.Write
	keys, args := x.Kind.guards(x)
	stepKeys, stepArgs := step.split()
	return Call{
		Script: x.Kind.guard.ReleaseScript(w.Source, step.Script), Keys: slices.Concat(w.Keys, keys, stepKeys),
		Args: slices.Concat(w.Args, args, []string{w.nonce}, stepArgs, []string{strconv.Itoa(len(stepKeys)), strconv.Itoa(len(stepArgs))}),
	}
}

// conditionCall returns the call of the condition u with the command c behind it.
func conditionCall(u *Condition, c *Call) Call {
	keys, args := c.split()
	return Call{
		Script: conditions.script(parts{u.Source, c.Script}, conditionBegins, conditionEnds+"return (function(KEYS, ARGV)\n"+c.Script.text+"\nend)(stepKeys, stepArgs)"),
		Keys:   slices.Concat(u.Keys, keys),
		Args:   slices.Concat(u.Args, args, []string{strconv.Itoa(len(keys)), strconv.Itoa(len(args))}),
	}
}

// callForAll returns the call of one command, or of several that share a call: Mirrors or Acquires
// of one kind and slot.
func (r *Redis) callForAll(part []*Exchange) Call {
	switch {
	case part[0].Cmd.Op == core.Mirror:
		return r.mirrorCall(part)
	case len(part) == 1:
		return r.callFor(part[0])
	}
	acquires := make([]Call, len(part))
	for i, x := range part {
		acquires[i] = r.callFor(x)
	}
	return part[0].Kind.acquireAll.joinCalls(acquires)
}

// stepCall returns the call of a step: see scripts/queue.lua.
func (r *Redis) stepCall(x *Exchange) Call {
	names := x.Keys.names()
	c := Call{Script: x.Kind.step, fair: r.fairRights(names[fairQueueName])}
	if x.Cmd.Answerable && x.Cmd.Op != core.Leave || x.Cmd.Joins.Answerable {
		c.Script = x.Kind.clockedStep
	}
	if x.takesOver() {
		c.Script = x.Kind.takeover
	}
	all := append(c.words.all[:0], x.Keys.Key, names[queueName], names[foreignName], names[channelName])
	if c.fair != nil { // these begin at index fairKeysAt
		all = append(all, names[fairQueueName], names[fairTimesName])
	}
	if names[extraName] != "" {
		all = append(all, names[extraName])
	}
	c.words.keys = len(all)
	all = append(all, r.publishing(&x.Cmd))
	leaves, amount := x.Cmd.Op == core.Leave, x.amount()
	if leaves && x.Joins == "" {
		all = append(all, string(x.Text))
		if mode := modeLetter(x.Cmd.Ticket); amount != "" || mode != "x" {
			all = append(all, amount, mode)
		}
	} else {
		leaves = leaves || x.Ends != ""
		all = append(all, r.milliseconds(x.Cmd.Lease), amount, flag(leaves), flag(x.Joins != "" || x.Cmd.Op == core.Join))
		if x.Ends != "" {
			all = append(all, memberOf(core.Ticket{}, x.Ends))
		}
		if x.Cmd.Op != core.Step {
			all = append(all, memberOf(x.Cmd.Ticket, x.Text))
		}
		if x.Joins != "" {
			all = append(all, memberOf(x.Cmd.Joins, x.Joins))
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

// takesOver reports whether the command is a step of a ticket that takes the lock over.
func (x *Exchange) takesOver() bool {
	return x.Cmd.Takes && (x.Cmd.Op == core.Join || x.Cmd.Op == core.Look)
}

// amount returns the number of permits of a semaphore, or the number of fencing tokens that a grant
// reserves; "" for other locks.
func (x *Exchange) amount() string {
	switch {
	case x.Cmd.Permits > 0:
		return strconv.Itoa(x.Cmd.Permits)
	case x.Cmd.Tokens > 0:
		return strconv.FormatUint(x.Cmd.Tokens, 10)
	}
	return ""
}

// flag returns a bool as the scripts read it.
func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// milliseconds returns a lease as the scripts read it.
func (r *Redis) milliseconds(d core.Span) string {
	if time.Duration(d) == r.options.Lease {
		return r.leaseText
	}
	return strconv.FormatInt(max(time.Duration(d).Milliseconds(), 1), 10)
}

// mirrorLease returns the lease of a Mirror as its script reads it: after "=" if it may shorten the
// lease in Redis.
func (r *Redis) mirrorLease(cmd *core.Command) string {
	lease := r.milliseconds(cmd.Lease)
	if cmd.Exact {
		return "=" + lease
	}
	return lease
}

// publishing returns ARGV[1] of a step: how the script publishes and counts subscribers, and what
// the client knows of foreign clients. See scripts/queue.lua.
func (r *Redis) publishing(cmd *core.Command) string {
	how := r.family
	if cmd.Polling {
		how += "+"
	}
	if cmd.Heard {
		how += "!"
	}
	return how
}

// mirrorCall returns the call of Mirrors of one kind and slot.
func (r *Redis) mirrorCall(part []*Exchange) Call {
	c := part[0].Kind.mirrors(r, part)
	for _, x := range part {
		if x.Track {
			c.Track = append(c.Track, x.Keys.Key)
		}
		if x.Awaits {
			c.Queues = append(c.Queues, x.Keys.Queue())
		}
	}
	return c
}

// othersArgs returns the arguments by which scripts/others.lua counts the other waiters of the
// lock, and appends the keys that it reads; "" if the Mirror does not ask.
func (r *Redis) othersArgs(x *Exchange, keys *[]string) (how, channel string) {
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
	if x.Cmd.Heeds {
		how += "!"
	}
	return how, n[channelName]
}

// A plain, fair or fenced lock is a hash of one owner and its count, as Redisson's RLock. A fenced
// lock has a counter beside it.

func acquirePlain(r *Redis, x *Exchange) Call {
	script := x.Kind.acquire
	if x.Cmd.Answerable {
		script = x.Kind.clockedAcquire
	}
	if tokens := x.Keys.Extra(); tokens != "" {
		return script.Call(3, x.Keys.Key, x.Keys.Queue(), tokens, r.milliseconds(x.Cmd.Lease), string(x.Text), x.amount())
	}
	return script.Call(2, x.Keys.Key, x.Keys.Queue(), r.milliseconds(x.Cmd.Lease), string(x.Text))
}

func resumePlain(r *Redis, x *Exchange) Call {
	return r.resumeCall(x, string(x.Passed), string(x.Text))
}

// resumeCall returns the call of a Resume of a lock that is a hash of owners. from is the field of
// the owner that passed the lock on, and to is the field of the owner that resumes it; leases are
// the keys of their leases if they are readers.
func (r *Redis) resumeCall(x *Exchange, from, to string, leases ...string) Call {
	n := x.Keys.names()
	c := Call{Script: x.Kind.resume}
	all := append(c.words.all[:0], x.Keys.Key, n[queueName], n[foreignName], n[channelName])
	mode := "x"
	if len(leases) > 0 {
		all, mode = append(all, leases...), "s"
	} else if c.fair = r.fairRights(n[fairQueueName]); c.fair != nil { // these begin at index fairKeysAt
		all = append(all, n[fairQueueName], n[fairTimesName])
	}
	c.words.keys = len(all)
	all = append(all, r.publishing(&x.Cmd), r.milliseconds(x.Cmd.Lease), from, to, mode)
	c.words.n = len(all)
	return c
}

func mirrorPlain(r *Redis, part []*Exchange) Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.family)
	var more []string // the keys for scripts/others.lua
	for _, x := range part {
		how, channel := r.othersArgs(x, &more)
		keys = append(keys, x.Keys.Key)
		args = append(args, r.mirrorLease(&x.Cmd), string(x.Text), strconv.Itoa(x.Cmd.Writes), how, channel)
	}
	return Call{Script: part[0].Kind.mirror, Keys: append(keys, more...), Args: args}
}

// guardByKey returns the key of the lock and the owner, by which a guarded write checks the lock.
func guardByKey(x *Exchange) (keys, args []string) {
	return []string{x.Keys.Key}, []string{string(x.Text)}
}

// A read-write lock is a hash of the mode, the readers and the writer, and a key for each reader
// that lives as long as its lease, as Redisson's RReadWriteLock. Its two locks are one lock of
// package core, in two modes.

// leaseKey returns the key of a reader's lease.
func leaseKey(k *Keys, reader OwnerText) string {
	return k.Extra() + ":" + string(reader) + ":rwlock_timeout:1"
}

func acquireReadWrite(r *Redis, x *Exchange) Call {
	mode := "write"
	if x.Cmd.Mode == core.Shared {
		mode = "read"
	}
	return x.Kind.acquire.Call(4, x.Keys.Key, x.Keys.Queue(), x.Keys.Extra(), leaseKey(x.Keys, x.Text), r.milliseconds(x.Cmd.Lease), string(x.Text), mode)
}

func resumeReadWrite(r *Redis, x *Exchange) Call {
	if x.Cmd.Mode == core.Alone {
		return r.resumeCall(x, x.Passed.WriteField(), x.Text.WriteField())
	}
	return r.resumeCall(x, string(x.Passed), string(x.Text), leaseKey(x.Keys, x.Passed), leaseKey(x.Keys, x.Text))
}

func mirrorReadWrite(r *Redis, part []*Exchange) Call {
	keys, args := make([]string, 0, 3*len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.family)
	var more []string // the keys for scripts/others.lua
	for _, x := range part {
		how, _ := r.othersArgs(x, &more)
		keys = append(keys, x.Keys.Key, x.Keys.Extra(), x.Keys.Channel())
		args = append(args, r.mirrorLease(&x.Cmd), string(x.Text), strconv.Itoa(x.Cmd.Writes), flag(x.Cmd.Reads), how)
	}
	return Call{Script: part[0].Kind.mirror, Keys: append(keys, more...), Args: args}
}

func guardReadWrite(x *Exchange) (keys, args []string) {
	mode := "x"
	if x.Cmd.Mode == core.Shared {
		mode = "s"
	}
	return []string{x.Keys.Extra(), x.Keys.Key}, []string{mode, string(x.Text)}
}

// A semaphore is a sorted set of the owners that have permits, and of the ends of their leases.

func acquirePermits(r *Redis, x *Exchange) Call {
	return x.Kind.acquire.Call(2, x.Keys.Key, x.Keys.Queue(), r.milliseconds(x.Cmd.Lease), string(x.Text), x.amount())
}

func resumePermits(r *Redis, x *Exchange) Call {
	return x.Kind.resume.Call(2, x.Keys.Key, x.Keys.Queue(), r.milliseconds(x.Cmd.Lease), string(x.Passed), string(x.Text))
}

func mirrorPermits(r *Redis, part []*Exchange) Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 1+2*len(part))
	args = append(args, r.family)
	var queues []string // the queues of the semaphores whose permits ask for others, or are passed on
	for _, x := range part {
		keys = append(keys, x.Keys.Key)
		lease := r.mirrorLease(&x.Cmd)
		switch {
		case x.Cmd.Heeds:
			lease += "!"
		case x.Cmd.Asks:
			lease += "?"
		}
		args = append(args, lease, string(x.Text))
		if x.Cmd.Asks || x.Cmd.Owner == 0 {
			queues = append(queues, x.Keys.Queue())
		}
	}
	return Call{Script: part[0].Kind.mirror, Keys: append(keys, queues...), Args: args}
}
