package wire

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed scripts/*.lua
var files embed.FS

// The scripts, each with its KEYS, ARGV and replies on top of its file. A mirror or a
// resume of locks whose waiters are counted begins with that. A step is the kind's part, then those of the queue, of
// foreign clients, and of grants. All can be sent again after a lost reply without changing the
// outcome.
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
	SemaphoreStep    = newScript("semaphore", "queue", "foreign", "grant")

	AcquireAll          = Acquire.ofSeveral()
	ReadWriteAcquireAll = ReadWriteAcquire.ofSeveral()
	SemaphoreAcquireAll = SemaphoreAcquire.ofSeveral()
	// AskAcquire and PlainAskStep are Acquire and PlainStep for a call that takes an answer.
	AskAcquire   = ScriptOf("local reply = (function()\n" + Acquire.text + "\n" + read("clocked_acquire"))
	PlainAskStep = ScriptOf("local reply = (function()\n" + PlainStep.text + "\n" + read("clocked"))
)

// A Script is a Lua text that is called by its hash, and sent whole only to a
// server that has not seen it, or has flushed it. rueidis.Lua does that
// for one call at a time; here the calls of a batch do it each for themselves.
// It never retries: only the caller knows what a lost reply means.
type Script struct{ text, sha string }

// Hash returns what the script is called by.
func (s *Script) Hash() string { return s.sha }

// newScript returns the script of these files, one after the other.
func newScript(names ...string) *Script {
	text := ""
	for _, name := range names {
		text += read(name)
	}
	text = strings.Replace(text, swiftHere, read("swift"), 1)
	text = strings.Replace(text, ownersHere, read("owners"), 1)
	text = strings.Replace(text, permitsHere, read("permits"), 1)
	return ScriptOf(text)
}

// ofSeveral returns the script that acquires several locks by the acquire script s: see acquire_all.lua.
func (s *Script) ofSeveral() *Script {
	return ScriptOf(strings.Replace(read("acquire_all"), acquireHere, s.text, 1))
}

// ScriptOf returns the script of that text.
func ScriptOf(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// ownersHere is the line of a script that owners.lua takes the place of: behind the paths that
// need no owner, since Redis takes time to define its functions.
const ownersHere = "-- (owners.lua)\n"

// permitsHere is the line of a semaphore's scripts that permits.lua takes the place of.
const permitsHere = "-- (permits.lua)\n"

// swiftHere is the line of plain.lua that swift.lua takes the place of.
const swiftHere = "-- (swift.lua)\n"

// acquireHere is the line of acquire_all.lua that the acquire script of a kind takes the place of.
const acquireHere = "-- (acquire)\n"

func read(name string) string {
	text, err := files.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Exact writes a lease in milliseconds as a mirror takes it that may shorten it: see scripts/mirror.lua.
func Exact(lease string) string { return "=" + lease }

// A Call is a script with its keys and arguments.
type Call struct {
	Script     *Script
	Keys, Args []string
	words      words // instead of these, if there are some
	// fair is the rights to Redisson's fair queue if two of words are its keys, else nil.
	fair *fairRights

	// Track is the keys whose changes by other clients Redis is asked to report: see Tracks.
	Track []string
}

// words are the keys and arguments of a call for one lock, in the call itself: so Lock and
// Unlock allocate no slices, which would be a tenth of their cost.
type words struct {
	all     [15]string // the keys, then the arguments
	keys, n int        // how many are keys, how many there are
}

// Call returns a call with so many keys among its words, of which there are fifteen at most.
func (s *Script) Call(keys int, all ...string) Call {
	c := Call{Script: s, words: words{keys: keys, n: len(all)}}
	copy(c.words.all[:], all)
	return c
}

// Split returns the keys and the arguments of the call.
func (c *Call) Split() (keys, args []string) { return c.split() }

// Together returns the call of several acquires of one kind, of which s is the script for several.
func (s *Script) Together(acquires []Call) Call {
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

// again reports whether the call has not been executed and must be sent once more: the server does not know the script, or
// the client has learned that it has no right to keys which the call can do without.
func (c *Call) again(result rueidis.RedisResult) bool {
	reply, ok := rueidis.IsRedisErr(result.Error())
	return ok && (reply.IsNoScript() || c.fair != nil && c.fair.learn(reply))
}

// do makes one call.
func (c Call) do(ctx context.Context, redis rueidis.Client) (result rueidis.RedisResult) {
	if result = redis.Do(ctx, c.evalsha(redis)); c.again(result) {
		result = redis.Do(ctx, c.eval(redis))
	}
	return result
}

// DoAll makes many calls in one pipeline. Only those that again is true of are sent again: the
// others have been executed.
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

// sendAt sends the calls at these indexes in one pipeline, and fills in their results. It returns the
// indexes of those that must be sent again.
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
		if keys := calls[i].Track; tracks && len(keys) > 0 {
			r.track(&p, keys, called)
		}
	}
	for i, reply := range r.Client.DoMulti(ctx, p.commands...) {
		p.readers[i](reply)
	}
	return again
}

// A pipeline is commands that are sent together, and what reads their replies.
type pipeline struct {
	commands []rueidis.Completed
	readers  []func(rueidis.RedisResult)
}

func (p *pipeline) add(command rueidis.Completed, read func(rueidis.RedisResult)) {
	p.commands, p.readers = append(p.commands, command), append(p.readers, read)
}
