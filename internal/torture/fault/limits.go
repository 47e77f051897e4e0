package fault

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

// refusable are the commands that a client of the locks sends, directly or in a script.
var refusable = []string{
	"evalsha", "eval", "exists", "hexists", "hget", "hset", "hdel", "hkeys", "del", "pexpire", "pttl",
	"incrby", "get", "set", "hlen", "hmget", "hgetall",
	"zadd", "zrem", "zrange", "zscore",
	"publish", "spublish", "subscribe", "ssubscribe", "unsubscribe", "pubsub",
}

func ofLimits() []Kind {
	return []Kind{
		// Sentinels would take a primary that refuses them for dead.
		{Name: "maxclients", Where: slices.Concat(single, apart, cluster), Choose: func(*rand.Rand, Scene) Fault { return maxClients{} }},
		{Name: "out-of-memory", Where: everywhere, Choose: func(*rand.Rand, Scene) Fault { return outOfMemory{} }},
		{Name: "refuse-command", Where: everywhere, Choose: func(random *rand.Rand, _ Scene) Fault {
			return refuseCommand{refusable[random.IntN(len(refusable))]}
		}},
	}
}

// maxClients makes the servers refuse every new connection, and ends those of the workers.
type maxClients struct{}

func (maxClients) String() string { return "maxclients reached" }

func (maxClients) Inject(s *stage.Stage) error {
	return errors.Join(
		s.Everywhere("CONFIG", "SET", "maxclients", "1"),
		s.Everywhere("CLIENT", "KILL", "USER", stage.User))
}

func (maxClients) Heal(s *stage.Stage) error {
	return s.Everywhere("CONFIG", "SET", "maxclients", "10000")
}

// outOfMemory makes the servers refuse commands that need memory. Nothing is evicted.
type outOfMemory struct{}

func (outOfMemory) String() string { return "maxmemory without eviction" }

func (outOfMemory) Inject(s *stage.Stage) error {
	return s.Everywhere("CONFIG", "SET", "maxmemory", "1")
}

func (outOfMemory) Heal(s *stage.Stage) error {
	return s.Everywhere("CONFIG", "SET", "maxmemory", "0")
}

// refuseCommand takes from the workers the right to one command.
type refuseCommand struct{ command string }

func (f refuseCommand) String() string { return "no right to " + f.command }

func (f refuseCommand) Inject(s *stage.Stage) error {
	return s.Everywhere("ACL", "SETUSER", stage.User, "-"+f.command)
}

func (f refuseCommand) Heal(s *stage.Stage) error {
	return s.Everywhere("ACL", "SETUSER", stage.User, "+@all")
}
