package wire

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Foreign clients that only poll cannot be counted. If the server knows scripts of Redisson, a
// client leaves windows to them for the names that it wants all the time. Pollers find any other
// name free in the pauses.
const (
	// spellPause is the longest pause after which a name still counts as wanted all the time: the
	// length of a window for pollers.
	spellPause = 140 * time.Millisecond
	// spellTime is the time for which a name has to be wanted before pollers are left a window.
	spellTime = 2 * time.Second
	// maxSpells is the largest number of names that are remembered.
	maxSpells = 4096
)

// spells has the names that this client has wanted lately.
type spells struct {
	mu    sync.Mutex // guards the fields below
	names map[string]spell
}

// A spell is the time for which a name has been wanted without a pause.
type spell struct {
	since time.Time
	freed time.Time // the time at which the name was released; zero once it is wanted again
}

// wanted notes that the client wants the name, or frees it, and reports whether it has wanted the
// name for spellTime.
func (s *spells) wanted(name string, frees bool, now time.Time) (long bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil || len(s.names) >= maxSpells {
		s.names = make(map[string]spell) // names that are wanted all the time are soon noted again
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

// noteWant notes that a command which is about to be sent wants the lock, or frees it. It reports
// whether the command, unless it is an Acquire, has to leave a window to foreign clients that only
// poll.
func (r *Redis) noteWant(x *Exchange) (polling bool) {
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

// Foreign clients are clients of Redisson: they know nothing of the queue. See scripts/foreign.lua.

// RedissonPolls says when windows are left to foreign clients that only poll.
type RedissonPolls int

// The values: see the constants of package rlock.
const (
	RedissonPollsAuto RedissonPolls = iota
	RedissonPollsNever
	RedissonPollsAlways
)

// foreign is what a client knows of foreign clients at its server.
type foreign struct {
	fair   fairRights
	spells spells
	// asked is the time at which the server was last asked for Redisson's scripts, in nanoseconds
	// since 1970, and seen whether it had one.
	asked atomic.Int64
	seen  atomic.Bool
}

// redissonScripts are the SHA1s of the scripts by which clients of Redisson try to acquire a plain
// lock. A server keeps the script of each attempt, also of a refused one. docs/redisson.md lists
// the versions whose scripts these are.
var redissonScripts = []string{
	"149c5a8bf18676fd99e9e6e24923bd64d9b62f94", // RLock from 3.30.0 on
	"dad0f8d619e548e04f21fb48d50be5034df3adae", // RLock of 3.17.7, and every spin lock
	"9401052d872adfd0179ef8c8e8c028512707629a", // RLock of 3.11.6
}

// The times for which an answer of the server counts: that it has such a script, and that it has
// none.
const (
	seenTime   = time.Minute
	unseenTime = 2 * time.Second
)

// Polls reports whether there may be foreign clients that only poll. With RedissonPollsAuto there
// may be some if the server had a script of Redisson when it was last asked.
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

// LookForRedisson asks the server in the background for scripts of Redisson, unless the last answer
// still counts. It is called for contended locks only, so that an uncontended client sends no such
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

// askForRedisson reports whether a node has a script of Redisson. ok is false if a node has not
// answered.
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

// Redisson's fair lock has two keys. A step declares the two keys, and the server refuses the whole
// step to a user without a right to them. The client of such a user then sends steps without these
// keys, and its releases do not notify waiters of Redisson's fair lock.
const fairKeysAt, fairKeys = 4, 2 // the index of the first of the two among the keys of a step, and their number

// fairRights remembers whether the server refused the keys of Redisson's fair lock.
type fairRights struct{ none atomic.Bool }

// learn notes and reports that the access rules of the server refused a call with these keys.
func (f *fairRights) learn(reply *rueidis.RedisError) bool {
	if !strings.HasPrefix(reply.Error(), "NOPERM") || !strings.Contains(reply.Error(), "key") || hasBegun(reply) {
		return false
	}
	f.none.Store(true)
	return true
}

// learnNoFair reports whether the error shows for the first time that the client has no right to
// the keys of Redisson's fair queue, and remembers that. Then the caller of learnNoFair builds the
// command again, without these keys.
func (r *Redis) learnNoFair(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && !r.foreign.fair.none.Load() && r.foreign.fair.learn(reply)
}

// fairRights returns the rights to the keys of the fair queue. It returns nil if a call must not
// have these keys: the lock has no fair queue, or the user no right to it.
func (r *Redis) fairRights(fairQueue string) *fairRights {
	if fairQueue == "" || r.foreign.fair.none.Load() {
		return nil
	}
	return &r.foreign.fair
}
