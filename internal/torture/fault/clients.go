package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofConnections() []Kind {
	return []Kind{
		{Name: "client-kill", Where: everywhere, Choose: killing("normal")},
		{Name: "client-kill-pubsub", Where: everywhere, Choose: killing("pubsub")},
		{Name: "client-pause", Where: slices.Concat(single, apart, cluster), Choose: choosePause},
		// Sentinels are clients too, and take a primary that pauses them for dead.
		{Name: "client-pause", Where: sentinel, Forgets: true, Choose: choosePause},
		{Name: "script-flush", Where: everywhere, Choose: func(*rand.Rand, Scene) *Fault {
			return repeated("SCRIPT FLUSH every 10ms", 10*time.Millisecond, func(s *stage.Stage) { _ = s.Everywhere("SCRIPT", "FLUSH") })
		}},
	}
}

// often is an interval between 10 ms and a second.
func often(random *rand.Rand) time.Duration {
	return []time.Duration{10, 30, 100, 300, 1000}[random.IntN(5)] * time.Millisecond
}

// killing makes the servers end the workers' connections of a type, normal or pubsub, again and again.
func killing(kind string) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, _ Scene) *Fault {
		interval := often(random)
		return repeated(fmt.Sprintf("CLIENT KILL of %s connections every %v", kind, interval), interval, func(s *stage.Stage) {
			// A node that is down has no connections.
			_ = s.Everywhere("CLIENT", "KILL", "USER", stage.User, "TYPE", kind)
		})
	}
}

// choosePause makes the servers answer no client, or no client that writes. It ends by itself, since no paused client can
// end it.
func choosePause(random *rand.Rand, scene Scene) *Fault {
	what := []string{"ALL", "WRITE"}[random.IntN(2)]
	lasts := time.Duration(random.Int64N(int64(2 * scene.Lease))).Round(time.Millisecond).Milliseconds()
	return makeFault(fmt.Sprintf("CLIENT PAUSE %d %s", lasts, what),
		everyNode("CLIENT", "PAUSE", strconv.FormatInt(lasts, 10), what), everyNode("CLIENT", "UNPAUSE"))
}

// everyNode sends a command to all data nodes.
func everyNode(command ...string) func(*stage.Stage) error {
	return func(s *stage.Stage) error { return s.Everywhere(command...) }
}

// refusable are the commands that a client of the locks sends, directly or in a script.
var refusable = []string{
	"evalsha", "eval", "exists", "hexists", "hget", "hset", "hdel", "hkeys", "del", "pexpire", "pttl",
	"incrby", "get", "set", "hlen", "hmget", "hgetall",
	"zadd", "zrem", "zrange", "zscore",
	"publish", "spublish", "subscribe", "ssubscribe", "unsubscribe", "pubsub",
}

func ofLimits() []Kind {
	return []Kind{
		// The servers refuse every new connection, and end those of the workers. Sentinels would take a primary that
		// refuses them for dead.
		{Name: "maxclients", Where: slices.Concat(single, apart, cluster), Choose: func(*rand.Rand, Scene) *Fault {
			return makeFault("maxclients reached", func(s *stage.Stage) error {
				return errors.Join(s.Everywhere("CONFIG", "SET", "maxclients", "1"), s.Everywhere("CLIENT", "KILL", "USER", stage.User))
			}, everyNode("CONFIG", "SET", "maxclients", "10000"))
		}},
		// The servers refuse commands that need memory. Nothing is evicted.
		{Name: "out-of-memory", Where: everywhere, Choose: func(*rand.Rand, Scene) *Fault {
			return makeFault("maxmemory without eviction", everyNode("CONFIG", "SET", "maxmemory", "1"), everyNode("CONFIG", "SET", "maxmemory", "0"))
		}},
		// The workers lose the right to one command.
		{Name: "refuse-command", Where: everywhere, Choose: func(random *rand.Rand, _ Scene) *Fault {
			command := refusable[random.IntN(len(refusable))]
			return makeFault("no right to "+command, everyNode("ACL", "SETUSER", stage.User, "-"+command), everyNode("ACL", "SETUSER", stage.User, "+@all"))
		}},
	}
}
