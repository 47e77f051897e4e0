package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// A Guard makes guarded writes: scripts of users that look first whether the lock has their tenure. It has one script for
// each source, and for each with a step.
type Guard struct {
	looks string // the part that refuses, on one line, so that an error names the line of the source
	composed
}

// composed are scripts that are made of a source of the user's.
type composed struct {
	mu      sync.Mutex // protects following
	scripts map[parts]*Script
}

// parts are what such a script is made of: a source, and the command that is executed with it, nil for none.
type parts struct {
	source  string
	command *Script
}

// The guards of the kinds of locks. Each has its KEYS, ARGV and replies on top of its file.
var (
	PlainGuard     = newGuard("guard")
	ReadWriteGuard = newGuard("rw_guard")
	SemaphoreGuard = newGuard("semaphore_guard")
)

// Commands is the source of a guarded write that is a list of commands: see its file.
var Commands = read("commands")

// mostSources is how many of them are remembered: a source that is made anew for each call would fill the memory here,
// as it does that of Redis.
const mostSources = 1000

// The parts of the scripts beside a guard's own: the beginning and the end of a guarded write, and of a release that carries one.
const writeBegins = "local done, reply = pcall(function() "

var (
	writeEnds     = oneLine(read("guard_end"))
	releaseBegins = oneLine(read("release"))
	answers       = oneLine(read("release_answer"))
	releaseEnds   = read("release_end")
)

func newGuard(name string) *Guard {
	return &Guard{looks: oneLine(read(name))}
}

// oneLine returns a script without its comments on one line.
func oneLine(text string) (line string) {
	for l := range strings.Lines(text) {
		if !strings.HasPrefix(l, "--") {
			line += strings.TrimSpace(l) + " "
		}
	}
	return line
}

// Script returns the script of a guarded write. A first line of the source with flags ("#!lua ...") stays the first.
func (g *Guard) Script(source string) *Script {
	return g.script(parts{source, nil}, g.looks+writeBegins, writeEnds)
}

// Release returns the script of a guarded write that a release carries, whose step is this one: see scripts/release.lua.
func (g *Guard) Release(source string, step *Script) *Script {
	return g.script(parts{source, step}, releaseBegins+"local refused = (function() "+g.looks+"end)() local done, reply = true, refused if not refused then done, reply = pcall(function() ",
		"end) end "+answers+"local stepped, left = pcall(function(KEYS, ARGV)\n"+step.text+"\n"+releaseEnds)
}

// script returns the script of a source between a beginning, on the line of its first, and an end.
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

// Nonce returns the last argument of a guarded write, which its source does not see: so no source can write the guard's
// answer.
func Nonce() string { return strconv.FormatUint(rand.Uint64(), 36) }

// Fenced reports whether err says that the guarded write with the nonce was refused, since the lock does not have its
// tenure.
func Fenced(err error, nonce string) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.Error() == "RLOCK_FENCED "+nonce
}

// Beside returns the key of that name in the slot of the lock with that key. Two locks have different ones: with one colon
// behind a key with braces, "x" and "{x}" would have the same.
func Beside(key, name string) string {
	if strings.Contains(key, "{") {
		return key + "::" + name
	}
	return "{" + key + "}:" + name
}

// tagOf returns the part of a key that decides its slot.
func tagOf(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// CheckKeys returns why a guarded write may not have the keys, nil if it may: they are none of a lock, and in a Cluster in
// the slot of this one.
func (r *Redis) CheckKeys(k *Keys, keys []string) error {
	for _, key := range keys {
		own := slices.Contains([]string{k.Key, k.Extra(), k.FairQueue(), k.FairTimes()}, key) ||
			strings.HasPrefix(key, "rlock_queue:") || strings.HasPrefix(key, "rlock_foreign:") || strings.Contains(key, ":rwlock_timeout:")
		switch {
		case key == "":
			return fmt.Errorf("%w: a key is empty", ErrInvalidName)
		case own:
			return fmt.Errorf("%w: the key %q is one of a lock", ErrInvalidName, key)
		case r.InCluster() && HashSlot(key) != k.Slot:
			return fmt.Errorf("%w: the key %q has another slot than the lock: give it the lock's hash tag, as in %q, or, if it exists, name the lock after it, as in %q", ErrInvalidName, key, Beside(k.Key, key), "lock:{"+tagOf(key)+"}")
		}
	}
	return nil
}
