package wire_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

var (
	steps          = []core.Op{core.Join, core.Look, core.Leave, core.Step}
	commandOfACall = regexp.MustCompile(`redis\.p?call\('([a-z]+)'`)
)

// commandsOf returns the commands of the kind's scripts.
func commandsOf(k *modelKind) []string {
	commands := []string{"PUBLISH"} // the scripts have its name in a variable
	for _, script := range []*wire.Script{k.acquire, k.resume, k.step, k.mirror, k.guard} {
		for _, found := range commandOfACall.FindAllStringSubmatch(script.Text(), -1) {
			commands = append(commands, strings.ToUpper(found[1]))
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// isForForeign reports whether the step uses the refused command for clients of Redisson only: it goes
// on without it. A release of a lock without a queue may begin a window for these clients.
func (c *comparison) isForForeign(cmd core.Command, e *embedded) bool {
	releases := cmd.Op == core.Leave || cmd.Ends != (core.Holding{})
	switch e.refused {
	case "HMGET", "LINDEX", "LPUSH", "LRANGE", "LREM":
		return slices.Contains(steps, cmd.Op)
	case "HDEL":
		return slices.Contains(steps, cmd.Op) && !releases
	case "HSET", "ZADD":
		return cmd.Op == core.Leave && cmd.Joins == (core.Ticket{}) && c.model != server.Semaphore && !e.m.Exists(c.keys.Queue())
	}
	return false
}

// A user may lose a right at any moment, or a server refuse a command: no script leaves a key that
// has no end. The scripts of the last two commands of a round are refused one of theirs.
func TestARefusedCommandLeavesNoKeyWithoutAnEnd(t *testing.T) {
	manyCommands(t)
	redistest.Slow(t)
	for _, k := range modelKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			e := newEmbedded(t)
			c := compare(t, e, k)
			commands := commandsOf(&k)
			for n := range uint64(60 * len(commands)) {
				c.start(n)
				for range c.random.IntN(16) {
					_, _, difference := c.event()
					require.Empty(t, difference)
				}
				e.refused = commands[n%uint64(len(commands))]
				for range 2 {
					cmd := c.draw()
					c.note("%s without %s", commandText(cmd), e.refused)
					needless := c.isForForeign(cmd, e)
					err, failed := e.do(c.words(cmd))[0].(error)
					if needless {
						require.False(t, failed, "%s: %v", strings.Join(c.log, "\n"), err)
					}
				}
				endless := c.endless(e)
				e.refused, e.messages = "", nil
				require.Empty(t, endless, strings.Join(c.log, "\n"))
			}
		})
	}
}

// A server that is full and may not evict keys (maxmemory-policy noeviction) refuses what needs
// memory, but not to a script that has written before. It may refuse a lock that is new. It must not
// refuse one that is held, or that is granted to a waiter.
func TestAFullServerLosesNoLock(t *testing.T) {
	manyCommands(t)
	for _, k := range modelKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			e := newEmbedded(t)
			c := compare(t, e, k)
			for n := range uint64(500) {
				if e.full = false; n%2 == 0 {
					c.start(n)
				}
				if c.foreign.some() {
					continue
				}
				for range c.random.IntN(12) {
					_, _, difference := c.event()
					require.Empty(t, difference)
				}
				e.full = true
				cmd := c.draw()
				if !slices.Contains([]core.Op{core.Resume, core.Look, core.Mirror, core.Leave}, cmd.Op) {
					continue
				}
				cmd.Lease = max(cmd.Lease, 60_000) // a mirror that prolongs no lease has written nothing before
				_, difference := c.command(cmd)
				require.Empty(t, difference)
			}
		})
	}
}

// A place without a time would keep the waiters of Redisson's fair lock for ever.
func TestAPlaceInTheFairQueueHasATime(t *testing.T) {
	e := newEmbedded(t)
	c := compare(t, e, modelPlain)
	step := func(op core.Op) {
		e.do(c.words(core.Command{Op: op, Ticket: core.Ticket{ID: core.ID{Client: 0, N: 1}, Owner: 1}, Lease: 5000}))
	}
	c.start(0)
	c.take(core.Ticket{ID: core.ID{Client: server.FirstForeign, N: 1}}, 30*time.Second)
	step(core.Join)
	e.do([]string{"RPUSH", c.keys.FairQueue(), ownerText(core.ID{Client: server.FirstForeign, N: 2}, 0)})
	e.refused = "ZADD"
	step(core.Look)
	e.refused = ""
	require.Empty(t, c.endless(e))
	step(core.Look)
	waiting, _ := e.m.List(c.keys.FairQueue())
	require.Contains(t, waiting, "rlock:0", "it is taken now")
}

// endless returns the keys that have no end, and places in Redisson's fair queue without a time of
// their own.
func (c *comparison) endless(e *embedded) (keys []string) {
	for _, key := range e.m.Keys() {
		if e.m.TTL(key) == 0 && !slices.Contains([]string{c.keys.FairQueue(), c.keys.FairTimes(), c.keys.Extra()}, key) {
			fields, _ := e.m.HKeys(key)
			members, _ := e.m.ZMembers(key)
			keys = append(keys, fmt.Sprint(key, fields, members))
		}
	}
	waiting, _ := e.m.List(c.keys.FairQueue())
	timed, _ := e.m.ZMembers(c.keys.FairTimes())
	if isOther := func(owner string) bool { return owner != "rlock:0" }; len(slices.DeleteFunc(waiting, isOther)) != len(slices.DeleteFunc(timed, isOther)) {
		keys = append(keys, fmt.Sprint("places ", waiting, timed))
	}
	return keys
}
