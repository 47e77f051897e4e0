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
// each source.
type Guard struct {
	prelude string // on one line, so that an error names the line of the source
	end     string

	mu      sync.Mutex         // protects following
	scripts map[string]*Script // by source
}

// The guards of the kinds of locks. Each has its KEYS, ARGV and replies on top of its file.
var (
	PlainGuard     = newGuard("guard")
	ReadWriteGuard = newGuard("rw_guard")
	SemaphoreGuard = newGuard("semaphore_guard")
)

// Commands is the source of a guarded write that is a list of commands: see its file.
var Commands = read("commands")

// mostSources is how many sources a guard remembers: a source that is made anew for each call would fill the memory here,
// as it does that of Redis.
const mostSources = 1000

func newGuard(name string) *Guard {
	return &Guard{scripts: make(map[string]*Script), prelude: oneLine(read(name)), end: oneLine(read("guard_end"))}
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

// Script returns the script of a source. A first line with flags ("#!lua ...") stays the first.
func (g *Guard) Script(source string) *Script {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.scripts[source]
	if s == nil {
		flags, rest := "", source
		if strings.HasPrefix(source, "#!") {
			flags, rest, _ = strings.Cut(source, "\n")
			flags += "\n"
		}
		s = scriptOf(flags + g.prelude + rest + "\n" + g.end)
		if len(g.scripts) >= mostSources {
			clear(g.scripts)
		}
		g.scripts[source] = s
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

// Beside returns the key of that name in the slot of the lock with that key.
func Beside(key, name string) string {
	if strings.Contains(key, "{") {
		return key + ":" + name
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
		case r.InCluster() && hashSlot(key) != k.Slot:
			return fmt.Errorf("%w: the key %q has another slot than the lock: give it the lock's hash tag, as in %q, or, if it exists, name the lock after it, as in %q", ErrInvalidName, key, Beside(k.Key, key), "lock:{"+tagOf(key)+"}")
		}
	}
	return nil
}
