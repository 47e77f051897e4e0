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

// forForeign are commands that a step uses for clients of Redisson only, if it releases nothing: it
// goes on without them.
var forForeign = []string{"HDEL", "HMGET", "LINDEX", "LPUSH", "LRANGE", "LREM"}

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
					err, failed := e.do(c.words(cmd))[0].(error)
					if slices.Contains(forForeign, e.refused) && slices.Contains(steps, cmd.Op) && (cmd.Op != core.Leave && cmd.Ends == (core.Holding{}) || e.refused != "HDEL") {
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

// A release without a queue begins a window for a client of Redisson that listens: not one that has
// no end.
func TestAWindowThatCannotEndIsNone(t *testing.T) {
	e := newEmbedded(t)
	c := compare(t, e, modelPlain)
	ticket := core.Ticket{ID: core.ID{Client: 0, N: 1}, Owner: 1}
	for _, without := range []string{"", "PEXPIRE", "HSET", "ZADD"} {
		c.start(0)
		e.listen(foreignName(0), c.keys.Channel(), true)
		e.do(c.words(core.Command{Op: core.Acquire, Ticket: ticket, Lease: 5000}))
		e.refused = without
		released := e.do(c.words(core.Command{Op: core.Leave, Ticket: ticket}))[0]
		e.refused = ""
		require.Equal(t, 1, released, "without %s", without)
		require.Empty(t, c.endless(e), "without %s", without)
		require.Equal(t, without == "" || without == "HSET", e.m.Exists(c.keys.Queue()), "without %s", without)
	}
}

// A place without a time would keep the waiters of Redisson's fair lock for ever, and so would a
// second one, whose time goes with the first.
func TestAPlaceInTheFairQueueHasATime(t *testing.T) {
	e := newEmbedded(t)
	c := compare(t, e, modelPlain)
	ticket := core.Ticket{ID: core.ID{Client: 0, N: 1}, Owner: 1}
	step := func(op core.Op, without string) {
		e.refused = without
		e.do(c.words(core.Command{Op: op, Ticket: ticket, Lease: 5000}))
		e.refused = ""
		require.Empty(t, c.endless(e), "without %s", without)
	}
	placed := func() bool { waiting, _ := e.m.List(c.keys.FairQueue()); return slices.Contains(waiting, "rlock:0") }
	for _, without := range []string{"ZADD", "LPUSH", "LRANGE"} {
		c.start(0)
		foreign := core.ID{Client: server.FirstForeign, N: 1}
		c.take(core.Ticket{ID: foreign}, 30*time.Second)
		step(core.Join, "")
		e.do([]string{"RPUSH", c.keys.FairQueue(), ownerText(core.ID{Client: server.FirstForeign, N: 2}, 0)})
		step(core.Look, without)
		require.False(t, placed(), "without %s", without)
		step(core.Look, "")
		require.True(t, placed())
		step(core.Look, without)
		e.do([]string{"DEL", modelLock})
		step(core.Look, "LREM")
		require.True(t, placed(), "until its time is over")
	}
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
