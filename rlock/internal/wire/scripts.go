package wire

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

//go:embed scripts/*.lua
var files embed.FS

// The scripts. Each file begins with its KEYS, ARGV and replies. A Mirror or a Resume that counts
// waiters begins with others.lua. A step is the kind's part, then the parts of the queue, of
// foreign clients, and of grants. docs/protocol.md says what each script does if it is executed
// again.
var (
	Acquire          = newScript("acquire")
	Resume           = newScript("others", "resume")
	Mirror           = newScript("others", "mirror")
	PlainStep        = newScript("plain", "queue", "foreign", "grant")
	ReadWriteAcquire = newScript("rw_acquire")
	ReadWriteMirror  = newScript("others", "rw_mirror")
	ReadWriteStep    = newScript("rw", "queue", "foreign", "grant")
	SemaphoreAcquire = newScript("semaphore_acquire")
	SemaphoreResume  = newScript("semaphore_resume")
	SemaphoreMirror  = newScript("semaphore_mirror")
	semaphoreStep    = newScript("semaphore", "queue", "foreign", "grant")

	AcquireAll          = Acquire.ofSeveral()
	readWriteAcquireAll = ReadWriteAcquire.ofSeveral()
	semaphoreAcquireAll = SemaphoreAcquire.ofSeveral()
	// The steps of tickets that take the lock over.
	plainTakeover     = PlainStep.takingOver()
	readWriteTakeover = ReadWriteStep.takingOver()
	semaphoreTakeover = semaphoreStep.takingOver()
	letThrough        = newScript("let_through")
	// clockedAcquire and plainClockedStep are Acquire and PlainStep for a ticket that takes an answer:
	// see scripts/clocked.lua.
	clockedAcquire   = ScriptOf("local reply = (function()\n" + Acquire.text + "\n" + readScript("clocked_acquire"))
	plainClockedStep = ScriptOf("local reply = (function()\n" + PlainStep.text + "\n" + readScript("clocked"))
)

// A Script is a Lua text that is called by its hash, and sent whole only to a server that does not
// have it. rueidis.Lua does so for one call at a time, a Script for each call of a batch. A call is
// not repeated after a lost reply: only its caller knows whether a repetition does harm.
type Script struct{ text, sha string }

// Hash returns the SHA1 by which the script is called.
func (s *Script) Hash() string { return s.sha }

// newScript returns the script of these files, in their order.
func newScript(names ...string) *Script {
	text := ""
	for _, name := range names {
		text += readScript(name)
	}
	return ScriptOf(withParts(text))
}

// shared are the files that replace the lines "-- (<name>.lua)" of other files.
//
// owners.lua and tenures.lua come behind the common ends of a step, which need no owner: Redis
// takes time to define the functions. tokens.lua may stand before the ends: the time to define its
// one function is too short to be measured.
//
// A step in which a ticket joins behind another one may end at 3 in swift.lua or at 11 in
// queue.lua. The first end comes before queue.lua has defined its functions, and so repeats the
// pattern of owners.lua. The second end serves the other kinds, and steps that do more than join.
var shared = []string{"swift", "tokens", "owners", "permits", "tenures"}

// withParts returns the text with the shared files in place of the lines that name them.
func withParts(text string) string {
	for _, name := range shared {
		text = strings.Replace(text, "-- ("+name+".lua)\n", readScript(name), 1)
	}
	return text
}

// ofSeveral returns the script that acquires several locks by the script s: see acquire_all.lua.
func (s *Script) ofSeveral() *Script {
	return ScriptOf(strings.Replace(readScript("acquire_all"), acquireHere, s.text, 1))
}

// takingOver returns the script of a ticket that takes the lock over, which has the step s inside:
// see takeover.lua.
func (s *Script) takingOver() *Script {
	return ScriptOf(strings.Replace(withParts(readScript("takeover")), stepHere, s.text, 1))
}

// ScriptOf returns the script of that text.
func ScriptOf(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// acquireHere and stepHere are the lines of acquire_all.lua and takeover.lua that the script of a
// kind replaces.
const (
	acquireHere = "-- (acquire)\n"
	stepHere    = "-- (step)\n"
)

func readScript(name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A Call is a script with its keys and arguments.
type Call struct {
	Script     *Script
	Keys, Args []string
	words      words       // the keys and arguments, in place of Keys and Args; empty if these are set
	fair       *fairRights // the rights to Redisson's fair queue; nil if words do not have its keys

	Track  []string // the keys that the call tracks: see tracking
	Queues []string // the queues that it tracks
}

// words are the keys and arguments of a call for one lock. They are in the Call itself: slices
// would make Lock and Unlock a tenth slower.
type words struct {
	all     [15]string // the keys, then the arguments
	keys, n int        // the number of keys, and of all words
}

// Call returns a call with these words, at most fifteen. The first words are its keys.
func (s *Script) Call(keys int, all ...string) Call {
	c := Call{Script: s, words: words{keys: keys, n: len(all)}}
	copy(c.words.all[:], all)
	return c
}

// joinCalls returns one call for several Acquires of one kind. s is the kind's script for several.
func (s *Script) joinCalls(acquires []Call) Call {
	c := Call{Script: s}
	for i := range acquires {
		keys, args := acquires[i].split()
		if i == 0 {
			c.Keys, c.Args = make([]string, 0, len(acquires)*len(keys)), make([]string, 0, 2+len(acquires)*len(args))
			c.Args = append(c.Args, strconv.Itoa(len(keys)), strconv.Itoa(len(args)))
		}
		c.Keys, c.Args = append(c.Keys, keys...), append(c.Args, args...)
	}
	return c
}

func (c *Call) split() (keys, args []string) {
	if w := &c.words; w.n > 0 {
		keys, args = w.all[:w.keys], w.all[w.keys:w.n]
		if c.fair != nil && c.fair.none.Load() {
			keys = slices.Delete(slices.Clone(keys), fairKeysAt, fairKeysAt+fairKeys)
		}
		return keys, args
	}
	return c.Keys, c.Args
}

func (c Call) evalsha(redis rueidis.Client) rueidis.Completed {
	keys, args := c.split()
	return redis.B().Evalsha().Sha1(c.Script.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func (c Call) eval(redis rueidis.Client) rueidis.Completed {
	keys, args := c.split()
	return redis.B().Eval().Script(c.Script.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// again reports whether the call was not executed and is to be sent again: the server does not know
// the script, or has refused keys that the call can do without.
func (c *Call) again(result rueidis.RedisResult) bool {
	reply, ok := rueidis.IsRedisErr(result.Error())
	return ok && (reply.IsNoScript() || c.fair != nil && c.fair.learn(reply))
}

// send makes one call.
func (c Call) send(ctx context.Context, redis rueidis.Client) (result rueidis.RedisResult) {
	if result = redis.Do(ctx, c.evalsha(redis)); c.again(result) {
		result = redis.Do(ctx, c.eval(redis))
	}
	return result
}

// DoAll makes many calls in one pipeline. Calls for which again reports true are sent once more.
func (r *Redis) DoAll(ctx context.Context, calls []Call) ([]rueidis.RedisResult, Sent) {
	r.sent.n.Add(int64(len(calls)))
	sent := Sent{Generation: r.Generation()}
	results := make([]rueidis.RedisResult, len(calls))
	indexes := make([]int, len(calls))
	for i := range indexes {
		indexes[i] = i
	}
	if again := r.sendAt(ctx, calls, indexes, Call.evalsha, results); len(again) > 0 {
		r.sendAt(ctx, calls, again, Call.eval, results)
	}
	return results, sent
}

// sendAt sends the calls with these indexes in one pipeline, and fills in their results. It returns
// the indexes of calls that have to be sent again.
func (r *Redis) sendAt(ctx context.Context, calls []Call, indexes []int, write func(Call, rueidis.Client) rueidis.Completed, results []rueidis.RedisResult) (again []int) {
	var p pipeline
	tracks := r.startTracking(&p, calls)
	for _, i := range indexes {
		called := new(bool)
		p.add(write(calls[i], r.Client), func(reply rueidis.RedisResult) {
			results[i] = reply
			if *called = !calls[i].again(reply); !*called {
				again = append(again, i)
			}
		})
		if tracks {
			r.addTracking(&p, &calls[i], called)
		}
	}
	for i, reply := range r.Client.DoMulti(ctx, p.commands...) {
		p.readers[i](reply)
	}
	return again
}

// A pipeline is a list of commands that are sent together, with a reader for each reply.
type pipeline struct {
	commands []rueidis.Completed
	readers  []func(rueidis.RedisResult)
}

func (p *pipeline) add(command rueidis.Completed, read func(rueidis.RedisResult)) {
	p.commands, p.readers = append(p.commands, command), append(p.readers, read)
}

// A Guard makes the scripts of guarded writes: a source of the user behind a check that the tenure
// has the lock.
type Guard struct {
	looks string // the check, on one line, so that an error names the line of the source
	composed
}

// composed has the scripts that were composed with sources of users.
type composed struct {
	mu      sync.Mutex // guards the fields below
	scripts map[parts]*Script
}

// parts are the parts of a composed script: a source, and the script of the command that is
// executed with it, or nil.
type parts struct {
	source  string
	command *Script
}

// The guards of the kinds. Their files begin with KEYS, ARGV and replies.
var (
	plainGuard     = newGuard("guard")
	readWriteGuard = newGuard("rw_guard")
	semaphoreGuard = newGuard("semaphore_guard")
)

// Commands is the source of a guarded write that is a list of commands: see its file.
var Commands = readScript("commands")

// mostSources is the largest number of composed scripts that are kept: a program with a new source
// for each call would fill the memory, as it fills the memory of Redis.
const mostSources = 1000

// The texts around the guard and the source: the beginning and the end of a guarded write, and of a
// release that carries one.
const writeBegins = "local done, reply = pcall(function() "

var (
	writeEnds     = oneLine(readScript("guard_end"))
	releaseBegins = oneLine(readScript("release"))
	answers       = oneLine(withParts(readScript("release_answer")))
	releaseEnds   = readScript("release_end")
)

func newGuard(name string) *Guard {
	return &Guard{looks: oneLine(withParts(readScript(name)))}
}

// oneLine returns a script without its comments on one line.
func oneLine(text string) (line string) {
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "--") {
			line += l + " "
		}
	}
	return line
}

// Script returns the script of a guarded write. A line of flags ("#!lua ...") at the beginning of
// the source stays the first line.
func (g *Guard) Script(source string) *Script {
	return g.script(parts{source, nil}, g.looks+writeBegins, writeEnds)
}

// ReleaseScript returns the script of a guarded write that a release with that step carries: see
// scripts/release.lua.
func (g *Guard) ReleaseScript(source string, step *Script) *Script {
	return g.script(parts{source, step}, releaseBegins+"local refused = (function() "+g.looks+"end)() local done, reply = true, refused if not refused then done, reply = pcall(function() ",
		"end) end "+answers+"local stepped, left = pcall(function(KEYS, ARGV)\n"+step.text+"\n"+releaseEnds)
}

// script returns the script of a source between begin and end. begin stands on the first line of
// the source.
func (c *composed) script(of parts, begin, end string) *Script {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.scripts[of]
	if s == nil {
		flags, rest := "", of.source
		if strings.HasPrefix(rest, "#!") {
			flags, rest, _ = strings.Cut(rest, "\n")
			flags += "\n"
		}
		s = ScriptOf(flags + begin + rest + "\n" + end)
		if c.scripts == nil || len(c.scripts) >= mostSources {
			c.scripts = make(map[parts]*Script)
		}
		c.scripts[of] = s
	}
	return s
}

// fenced reports whether err is the error of the guard in the write with the nonce: the tenure does
// not have the lock, and the source was not executed.
func fenced(err error, nonce string) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.Error() == "RLOCK_FENCED "+nonce
}

// conditions has the scripts of conditions, each before an Acquire or a step.
var conditions composed

// The parts around the source of a condition: see scripts/condition.lua.
var (
	conditionBegins = releaseBegins + oneLine(readScript("condition"))
	conditionEnds   = "end)() " + oneLine(readScript("condition_end"))
)
