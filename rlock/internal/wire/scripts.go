package wire

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed scripts/*.lua
var files embed.FS

// The scripts, each with its KEYS, ARGV and replies on top of its file. A mirror of locks whose
// waiters are counted begins with that. A step is the kind's part, then those of the queue, of
// the guests, and of grants. All can be sent again after a lost reply without changing the
// outcome.
var (
	Acquire          = newScript("acquire")
	Mirror           = newScript("others", "mirror")
	PlainStep        = newScript("plain", "queue", "guests", "grant")
	ReadWriteAcquire = newScript("rw_acquire")
	ReadWriteMirror  = newScript("others", "rw_mirror")
	ReadWriteStep    = newScript("rw", "queue", "guests", "grant")
	SemaphoreAcquire = newScript("semaphore_acquire")
	SemaphoreMirror  = newScript("semaphore_mirror")
	SemaphoreStep    = newScript("semaphore", "queue", "guests", "grant")
)

// A Script is a Lua text that is called by its hash, and sent whole only to a
// server that has not seen it, or was told to forget it. rueidis.Lua does that
// for one call at a time; here the calls of a batch do it each for themselves.
// It never retries: only the caller knows what a lost reply means.
type Script struct{ text, sha string }

// newScript returns the script of these files, one after the other.
func newScript(names ...string) *Script {
	text := ""
	for _, name := range names {
		text += read(name)
	}
	text = strings.Replace(text, ownersHere, read("owners"), 1)
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// ownersHere is the line of a script that owners.lua takes the place of: behind the paths that
// need no owner, since Redis takes time to define what is in it.
const ownersHere = "-- (owners.lua)\n"

func read(name string) string {
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
	words      words // instead of these, if there are some

	// Track is keys that Redis is to tell of once somebody else changes them: see Tracks.
	Track []string
}

// words are those of a call for one lock, in the call itself: so Lock and Unlock allocate
// no slices, a tenth of what a client does for them.
type words struct {
	all     [12]string // the keys, then the arguments
	keys, n int        // how many are keys, how many there are
}

// Call returns a call with so many keys among its words, of which there are twelve at most.
func (s *Script) Call(keys int, all ...string) Call {
	c := Call{Script: s, words: words{keys: keys, n: len(all)}}
	copy(c.words.all[:], all)
	return c
}

func (c *Call) split() (keys, args []string) {
	if w := &c.words; w.n > 0 {
		return w.all[:w.keys], w.all[w.keys:w.n]
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

// A form is a way to write a call: with the hash of its script, or with the text.
type form func(Call, rueidis.Client) rueidis.Completed

// evaluate calls send with the hash, and with the text if send reports that the server has
// forgotten a script.
func evaluate(send func(form) (again bool)) {
	if send(Call.evalsha) {
		send(Call.eval)
	}
}

// forgotten reports whether the server does not know the script, and so has not run it.
func forgotten(result rueidis.RedisResult) bool {
	reply, ok := rueidis.IsRedisErr(result.Error())
	return ok && reply.IsNoScript()
}

// do makes one call.
func (c Call) do(ctx context.Context, redis rueidis.Client) (result rueidis.RedisResult) {
	evaluate(func(write form) bool {
		result = redis.Do(ctx, write(c, redis))
		return forgotten(result)
	})
	return result
}

// DoAll makes many calls in one pipeline. Only those whose script the server has forgotten
// are sent again: the others have been executed.
func (r *Redis) DoAll(ctx context.Context, calls []Call) []rueidis.RedisResult {
	r.sent.n.Add(int64(len(calls)))
	results := make([]rueidis.RedisResult, len(calls))
	places := make([]int, len(calls))
	for i := range places {
		places[i] = i
	}
	evaluate(func(write form) bool {
		places = r.pipeline(ctx, calls, places, write, results)
		return len(places) > 0
	})
	return results
}

// pipeline sends the calls at these places and fills in their results. It returns the places
// of those whose script the server has forgotten.
func (r *Redis) pipeline(ctx context.Context, calls []Call, places []int, write form, results []rueidis.RedisResult) (again []int) {
	mark, tracks := r.Mark(), r.Tracks() && slices.ContainsFunc(calls, func(c Call) bool { return len(c.Track) > 0 })
	cmds := make([]rueidis.Completed, 0, 1+3*len(places))
	if tracks {
		cmds = append(cmds, r.trackingOn())
	}
	for _, i := range places {
		cmds = append(cmds, write(calls[i], r.Client))
		if tracks {
			cmds = r.appendReads(cmds, calls[i].Track)
		}
	}
	replies := r.Client.DoMulti(ctx, cmds...)
	if tracks {
		r.trackingAnswered(replies[0], mark)
		replies = replies[1:]
	}
	for _, i := range places {
		results[i], replies = replies[0], replies[1:]
		if forgotten(results[i]) {
			again = append(again, i)
		}
		if tracks {
			replies = r.readsAnswered(replies, calls[i].Track, !forgotten(results[i]))
		}
	}
	return again
}
