package wire

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

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
