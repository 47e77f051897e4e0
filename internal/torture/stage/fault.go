package stage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A Kind is a way to break something. Redis forgets a lock in a restart without an append-only
// file, FLUSHALL, DEL, eviction, and, since it replicates asynchronously, in an unplanned failover.
// Two holders at once are then not the fault of the lock, and the report counts them apart.
type Kind struct {
	Name    string
	Where   []Topology
	Forgets bool // Redis may forget a lock that it has granted
	Once    bool // it is over when it has been injected

	Choose func(random *rand.Rand, scene Scene) *Fault // makes a fault, with all figures from random
}

// A Scene is the data from which a fault chooses.
type Scene struct {
	Workers int
	Names   []string      // of the locks
	Lease   time.Duration // of the clients
}

func (s Scene) name(random *rand.Rand) string { return s.Names[random.IntN(len(s.Names))] }

// A Fault is one that was chosen, with its figures. Faults are combined, so that one may find its
// server stopped by another: then Inject fails, which harms nothing. Heal undoes Inject. It may be
// called until it returns nil, and again, and also after an Inject that failed.
type Fault struct {
	text   string
	Worker int    // the one that it stops, -1 for none
	Lock   string // the only one that it concerns, "" for none

	Inject, Heal func(s *Stage) error
}

// String describes it, with its figures.
func (f *Fault) String() string { return f.text }

// newFault returns a fault of no worker and no lock.
func newFault(text string, inject, heal func(*Stage) error) *Fault {
	return &Fault{text: text, Worker: -1, Inject: inject, Heal: heal}
}

// nothing heals a fault that is over by itself.
func nothing(*Stage) error { return nil }

// For returns the kinds of a topology; of those named, if any are.
func For(topology Topology, names ...string) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool {
		return !slices.Contains(k.Where, topology) || len(names) > 0 && !slices.Contains(names, k.Name)
	})
}

// FaultNames are the names of all kinds.
func FaultNames() (list []string) {
	for _, k := range kinds {
		if !slices.Contains(list, k.Name) {
			list = append(list, k.Name)
		}
	}
	return list
}

var (
	single     = []Topology{Standalone, AOF}
	several    = []Topology{Independent}
	alone      = []Topology{Standalone, AOF, Independent, Cluster} // Sentinels take a primary that refuses or pauses them for dead
	replicated = []Topology{Sentinel, Cluster}
)

// kinds are all that there are, in an order that does not change.
var kinds = []Kind{
	// Of processes. Another life begins when a kill is healed.
	{Name: "kill-worker", Where: Topologies, Choose: ofWorker("kill -9", func(w *Worker) error {
		w.Kill()
		return nil
	}, (*Worker).Revive)},
	{Name: "pause-worker", Where: Topologies, Choose: ofWorker("SIGSTOP", (*Worker).Pause, func(w *Worker) error {
		if err := w.Resume(); err != nil && err != redistest.ErrKilled { // it may have been killed meanwhile
			return err
		}
		return nil
	})},

	// Of servers. A new primary may not have all writes that the dead one had confirmed.
	{Name: "pause-server", Where: single, Choose: ofServer("SIGSTOP", 1, (*redistest.Server).Pause, (*redistest.Server).Resume)},
	{Name: "restart", Where: []Topology{Standalone}, Forgets: true, Choose: ofServer("kill -9", 1, (*redistest.Server).Stop, (*redistest.Server).Start)},
	{Name: "restart-aof", Where: []Topology{AOF}, Choose: ofServer("kill -9", 1, (*redistest.Server).Stop, (*redistest.Server).Start)},
	{Name: "pause-one", Where: several, Choose: ofServer("SIGSTOP", apart, (*redistest.Server).Pause, (*redistest.Server).Resume)},
	{Name: "restart-one", Where: several, Choose: ofServer("kill -9", apart, (*redistest.Server).Stop, (*redistest.Server).Start)},
	{Name: "pause-primary", Where: replicated, Forgets: true, Choose: ofPrimary("SIGSTOP", (*redistest.Server).Pause, (*redistest.Server).Resume)},
	{Name: "kill-primary", Where: replicated, Forgets: true, Choose: ofPrimary("kill -9", (*redistest.Server).Stop, (*redistest.Server).Start)},

	// Of connections.
	{Name: "client-kill", Where: Topologies, Choose: killing("normal")},
	{Name: "client-kill-pubsub", Where: Topologies, Choose: killing("pubsub")},
	{Name: "client-pause", Where: alone, Choose: pausing},
	{Name: "client-pause", Where: []Topology{Sentinel}, Forgets: true, Choose: pausing},

	// Of data.
	{Name: "flushall", Where: Topologies, Forgets: true, Once: true, Choose: func(*rand.Rand, Scene) *Fault {
		return newFault("FLUSHALL", func(s *Stage) error { return s.OnPrimaries("FLUSHALL") }, nothing)
	}},
	{Name: "del", Where: Topologies, Forgets: true, Once: true, Choose: func(random *rand.Rand, scene Scene) *Fault {
		name := scene.name(random)
		f := newFault("DEL "+name, func(s *Stage) error { return s.OnPrimaries("DEL", name) }, nothing)
		f.Lock = name
		return f
	}},
	{Name: "evict", Where: Topologies, Forgets: true, Choose: func(*rand.Rand, Scene) *Fault {
		e := &evict{stop: func() {}}
		return newFault("maxmemory with eviction", e.inject, e.heal)
	}},

	// Of limits. The servers refuse every new connection, and end those of the workers; commands
	// that need memory; and the workers one command.
	{Name: "maxclients", Where: alone, Choose: func(*rand.Rand, Scene) *Fault {
		return newFault("maxclients reached", func(s *Stage) error {
			return errors.Join(s.Everywhere("CONFIG", "SET", "maxclients", "1"), s.Everywhere("CLIENT", "KILL", "USER", user))
		}, everywhere("CONFIG", "SET", "maxclients", "10000"))
	}},
	{Name: "out-of-memory", Where: Topologies, Choose: func(*rand.Rand, Scene) *Fault {
		return newFault("maxmemory without eviction", everywhere("CONFIG", "SET", "maxmemory", "1"), unlimited)
	}},
	{Name: "refuse-command", Where: Topologies, Choose: func(random *rand.Rand, _ Scene) *Fault {
		command := refusable[random.IntN(len(refusable))]
		return newFault("no right to "+command, everywhere("ACL", "SETUSER", user, "-"+command), everywhere("ACL", "SETUSER", user, "+@all"))
	}},

	// Of topologies. A Cluster's planned failover loses no write.
	{Name: "sentinel-failover", Where: []Topology{Sentinel}, Forgets: true, Choose: func(_ *rand.Rand, scene Scene) *Fault { return failover(scene.Names[0]) }},
	{Name: "cluster-failover", Where: []Topology{Cluster}, Choose: func(random *rand.Rand, scene Scene) *Fault { return failover(scene.name(random)) }},
	{Name: "move-slot", Where: []Topology{Cluster}, Choose: func(random *rand.Rand, scene Scene) *Fault { return moveSlot(scene.name(random)) }},
}

// refusable are the commands that a client of the locks sends, directly or in a script.
var refusable = strings.Fields(`evalsha eval exists hexists hget hset hdel hkeys del pexpire pttl
	incrby get set hlen hmget hgetall zadd zrem zrange zscore
	publish spublish subscribe ssubscribe unsubscribe pubsub`)

func ofWorker(how string, hurt, mend func(*Worker) error) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, scene Scene) *Fault {
		number := random.IntN(scene.Workers)
		f := newFault(fmt.Sprintf("%s of worker %d", how, number),
			func(s *Stage) error { return hurt(s.Workers[number]) },
			func(s *Stage) error { return mend(s.Workers[number]) })
		f.Worker = number
		return f
	}
}

// ofServer stops one of so many servers.
func ofServer(how string, many int, hurt, mend func(*redistest.Server)) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, _ Scene) *Fault {
		number, text := 0, how+" of the server"
		if many > 1 {
			number = random.IntN(many)
			text = fmt.Sprintf("%s of server %d", how, number)
		}
		return newFault(text,
			func(s *Stage) error { return redistest.Attempt(func() { hurt(s.Servers[number]) }) },
			func(s *Stage) error { return redistest.Attempt(func() { mend(s.Servers[number]) }) })
	}
}

// ofPrimary stops the node that takes the writes for a name. The others may make another one the
// primary meanwhile.
func ofPrimary(how string, hurt, mend func(*redistest.Server)) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, scene Scene) *Fault {
		name := scene.name(random)
		var stopped *redistest.Server
		return newFault(how+" of the primary of "+name, func(s *Stage) error {
			return redistest.Attempt(func() {
				node := s.Servers[0].Primary(name)
				hurt(node)
				stopped = node
			})
		}, func(*Stage) error {
			if stopped == nil {
				return nil
			}
			return redistest.Attempt(func() {
				mend(stopped)
				stopped = nil
			})
		})
	}
}

// killing makes the servers end the workers' connections of a type, normal or pubsub, again and
// again.
func killing(kind string) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, _ Scene) *Fault {
		interval := []time.Duration{10, 30, 100, 300, 1000}[random.IntN(5)] * time.Millisecond
		stop := func() {}
		return newFault(fmt.Sprintf("CLIENT KILL of %s connections every %v", kind, interval), func(s *Stage) error {
			stop = every(interval, func() {
				_ = s.Everywhere("CLIENT", "KILL", "USER", user, "TYPE", kind) // a node that is down has no connections
			})
			return nil
		}, func(*Stage) error {
			stop()
			return nil
		})
	}
}

// pausing makes the servers answer no client, or no client that writes. It ends by itself, since no
// paused client can end it.
func pausing(random *rand.Rand, scene Scene) *Fault {
	what := []string{"ALL", "WRITE"}[random.IntN(2)]
	lasts := strconv.FormatInt(time.Duration(random.Int64N(int64(2*scene.Lease))).Milliseconds(), 10)
	return newFault("CLIENT PAUSE "+lasts+" "+what, everywhere("CLIENT", "PAUSE", lasts, what), everywhere("CLIENT", "UNPAUSE"))
}

// everywhere sends a command to all data nodes.
func everywhere(command ...string) func(*Stage) error {
	return func(s *Stage) error { return s.Everywhere(command...) }
}

// every calls do once in each interval, until stop, which returns when do has.
func every(interval time.Duration, do func()) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.Tick(interval); ; {
			do()
			select {
			case <-tick:
			case <-end:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-done
	})
}

// evict fills the memory of the primaries beyond their limit, with keys of the kind of the locks,
// any of which Redis may drop.
type evict struct {
	stop func()
	made atomic.Int64
}

const (
	ballast      = "ballast:" // prefix of the keys
	ballastKeys  = 200
	ballastBytes = 10_000
)

// unlimited removes the limit of memory, also from the server's file: Sentinel may have written the
// limit there, and a server that is started again reads its file.
func unlimited(s *Stage) error {
	err := s.Everywhere("CONFIG", "SET", "maxmemory", "0")
	_ = s.Everywhere("CONFIG", "REWRITE") // without a file it is refused
	return err
}

func (f *evict) inject(s *Stage) error {
	failed := s.AllAnswer() // else each key would wait for the nodes that do not answer
	for n := 0; n < ballastKeys && failed == nil; n++ {
		failed = f.fill(s)
	}
	if failed != nil {
		return failed
	}
	failed = s.Everywhere("CONFIG", "SET", "maxmemory-policy", "volatile-random")
	for _, node := range s.Primaries() {
		used, err := s.info(node, "memory", "used_memory")
		if err == nil {
			err = s.Do(node, "CONFIG", "SET", "maxmemory", used).Error()
		}
		failed = errors.Join(failed, err)
	}
	f.stop = every(5*time.Millisecond, func() { _ = f.fill(s) })
	return failed
}

// fill adds a key, in a Cluster at the primary that serves it.
func (f *evict) fill(s *Stage) error {
	key := ballast + strconv.FormatInt(f.made.Add(1)%(2*ballastKeys), 10)
	return s.OnPrimaries("SET", key, strings.Repeat("x", ballastBytes), "EX", "100")
}

func (f *evict) heal(s *Stage) error {
	f.stop()
	if err := errors.Join(unlimited(s), s.Everywhere("CONFIG", "SET", "maxmemory-policy", "noeviction")); err != nil {
		return err
	}
	keys, err := s.Keys()
	for key := range keys {
		if strings.HasPrefix(key, ballast) {
			err = errors.Join(err, s.OnPrimaries("DEL", key))
		}
	}
	return err
}

// failover promotes a replica, as an operator does before maintenance. It heals by itself: see
// [Stage.Ready].
func failover(name string) *Fault {
	return newFault("failover of the primary of "+name, func(s *Stage) error {
		if err := s.AllAnswer(); err != nil {
			return err // a failover would wait for stopped nodes, which other faults heal
		}
		return redistest.Attempt(func() { s.Servers[0].Failover(name) })
	}, nothing)
}

// moveSlot moves the slot of a name to another shard, and back.
func moveSlot(name string) *Fault {
	// moves is how many moves return the slot: a move that another fault interrupted must be
	// completed, since no node serves all of a slot in migration.
	moves := 0
	move := func(s *Stage) error {
		err := s.AllAnswer()
		if err == nil {
			err = redistest.Attempt(func() { s.Servers[0].MoveSlot(name) })
		}
		if err == nil {
			moves--
		}
		return err
	}
	return newFault("the slot of "+name+" moved away and back", func(s *Stage) error {
		if err := s.AllAnswer(); err != nil {
			return err
		}
		moves = 2
		return move(s)
	}, func(s *Stage) (err error) {
		for moves > 0 && err == nil {
			err = move(s)
		}
		return err
	})
}
