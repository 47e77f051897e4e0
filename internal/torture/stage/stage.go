// Package stage has what a run of torture is about: a Redis of one topology, the processes that
// lock, and the faults of both. It connects to the nodes as another user than the processes do, so
// that faults of their connections do not affect it.
//
// Open returns an error if the servers cannot be set up. After it every method returns errors: a
// fault may meet a server that another fault has stopped. Close ends all processes in whatever
// state they are; if this program is killed, the kernel ends them (on Linux).
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A Topology is a way to run Redis.
type Topology string

const (
	Standalone  Topology = "standalone"  // forgets everything when it is restarted
	AOF         Topology = "aof"         // standalone, with an append-only file
	Sentinel    Topology = "sentinel"    // a primary, two replicas, three sentinels
	Cluster     Topology = "cluster"     // three primaries with a replica each
	Independent Topology = "independent" // three independent servers as aof
)

// apart is how many servers Independent has.
const apart = 3

// Topologies are all that there are.
var Topologies = []Topology{Standalone, AOF, Sentinel, Cluster, Independent}

// single reports whether no server takes over from another.
func (t Topology) single() bool { return t != Sentinel && t != Cluster }

// Workers connect as a user of their own, so that rights can be taken from them alone.
const (
	user     = "worker"
	password = "of-the-worker"
)

// patience is how long a node may take to answer the stage itself.
const patience = 2 * time.Second

// A Stage is one Redis, or several. The methods of its Servers belong to one goroutine at a time;
// the rest may be called concurrently.
type Stage struct {
	Topology Topology
	Servers  []*redistest.Server // call their methods within [redistest.Attempt]; one but for Independent
	Workers  []*Worker           // added by Hire

	keeper redistest.Program
	nodes  []*redistest.Server
	admins []rueidis.Client // one of each data node
}

// Open starts the servers of a topology. Its files are below dir.
func Open(topology Topology, dir string) (*Stage, error) {
	s := &Stage{Topology: topology, keeper: redistest.Program{Dir: dir}}
	err := s.start()
	for _, server := range s.Servers {
		s.nodes = append(s.nodes, server.Nodes()...)
	}
	for _, node := range s.nodes {
		if err != nil {
			break
		}
		// One connection that outlasts a paused node: where maxclients is reached there is no
		// second one, and a command must be executed before the one that undoes it.
		option := node.Options()
		option.PipelineMultiplex, option.AlwaysPipelining, option.AlwaysRESP2 = -1, true, true
		option.ConnWriteTimeout = time.Minute
		var admin rueidis.Client
		if admin, err = rueidis.NewClient(option); err == nil {
			s.admins = append(s.admins, admin)
		}
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("stage: %w", err)
	}
	return s, nil
}

func (s *Stage) start() error {
	// A file of users: users of the command line would be in the configuration as well, once a
	// server has rewritten it.
	users := filepath.Join(s.keeper.Dir, "users.acl")
	text := fmt.Sprintf("user default on nopass ~* &* +@all\nuser %s on >%s ~* &* +@all\n", user, password)
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		return err
	}
	args := []string{"--aclfile", users}
	lasting := append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)
	return redistest.Attempt(func() {
		k := &s.keeper
		switch s.Topology {
		case Standalone:
			s.Servers = append(s.Servers, redistest.Standalone(k, args...))
		case AOF:
			s.Servers = append(s.Servers, redistest.Standalone(k, lasting...))
		case Sentinel:
			s.Servers = append(s.Servers, redistest.Sentinel(k, args...))
			s.Servers[0].TakeForDead(time.Second)
		case Cluster:
			s.Servers = append(s.Servers, redistest.Cluster(k, args...))
			s.Servers[0].TakeForDead(2 * time.Second)
		case Independent:
			for range apart {
				s.Servers = append(s.Servers, redistest.Standalone(k, lasting...))
			}
		default:
			k.Fatalf("no topology is called %q: there are %v", s.Topology, Topologies)
		}
	})
}

// Close ends all processes. It may be called twice.
func (s *Stage) Close() {
	for _, w := range s.Workers {
		w.Kill()
	}
	for _, admin := range s.admins {
		admin.Close()
	}
	s.keeper.Close()
}

// An Address tells a worker how to reach one server, or the nodes of a Sentinel or a Cluster. It
// travels as JSON.
type Address struct {
	Init      []string // the first addresses of a client
	MasterSet string   // Sentinel only
	Single    bool     // no other server takes over
}

// Addresses returns an address for each of the Servers.
func (s *Stage) Addresses() (list []Address) {
	for _, server := range s.Servers {
		option := server.Options()
		list = append(list, Address{option.InitAddress, option.Sentinel.MasterSet, s.Topology.single()})
	}
	return list
}

// Option is how a worker connects.
func (a Address) Option() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: a.Init, Username: user, Password: password,
		Sentinel:          rueidis.SentinelOption{MasterSet: a.MasterSet},
		ForceSingleClient: a.Single,
	}
}

// Nodes is how many data nodes there are.
func (s *Stage) Nodes() int { return len(s.nodes) }

// Ready waits until the servers that run are in order: until the new primaries have taken over, and
// the replicas follow.
func (s *Stage) Ready() error {
	if s.Topology.single() {
		return nil
	}
	return redistest.Attempt(s.Servers[0].Start)
}

// Do sends a command to one data node.
func (s *Stage) Do(node int, command ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.admins[node].Do(ctx, s.admins[node].B().Arbitrary(command...).Build())
}

// Everywhere sends a command to all data nodes. Nodes that cannot be reached are an error, after
// the others had it.
func (s *Stage) Everywhere(command ...string) (failed error) {
	for node := range s.admins {
		if err := s.Do(node, command...).Error(); err != nil && !rueidis.IsRedisNil(err) {
			failed = errors.Join(failed, fmt.Errorf("stage: %s at %s: %w", command[0], s.nodes[node].Addr(), err))
		}
	}
	return failed
}

// AllAnswer returns an error if a data node does not answer.
func (s *Stage) AllAnswer() error { return s.Everywhere("PING") }

// Primaries returns the data nodes that call themselves primaries and answer.
func (s *Stage) Primaries() (nodes []int) {
	for node := range s.admins {
		role, err := s.Do(node, "ROLE").ToArray()
		if err != nil || len(role) == 0 {
			continue
		}
		if name, _ := role[0].ToString(); name == "master" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// info returns a figure of a node's INFO.
func (s *Stage) info(node int, section, figure string) (string, error) {
	info, err := s.Do(node, "INFO", section).ToString()
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, figure+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.Join(fmt.Errorf("stage: INFO %s of node %d has no %s", section, node, figure), err)
}

// Reigns returns the data nodes that call themselves primaries and answer, each with the
// replication id that it chose when it became a primary. Without failover there are none.
func (s *Stage) Reigns() (list []string) {
	if s.Topology.single() {
		return nil
	}
	for _, node := range s.Primaries() {
		if id, err := s.info(node, "replication", "master_replid"); err == nil {
			list = append(list, fmt.Sprintf("%d: %s", node, id))
		}
	}
	return list
}

// OnPrimaries sends a command to the primaries. It is an error if none of them executes it; in a
// Cluster, those that do not serve the key refuse.
func (s *Stage) OnPrimaries(command ...string) error {
	failed, done := errors.New("stage: no primary answers"), false
	for _, node := range s.Primaries() {
		err := s.Do(node, command...).Error()
		done = done || err == nil
		failed = errors.Join(failed, err)
	}
	if done {
		return nil
	}
	return failed
}

// Keys returns the keys of all primaries, with the milliseconds they have left, -1 for those
// without end. They are asked for in one round trip: with thousands of keys, one each would take
// minutes.
func (s *Stage) Keys() (map[string]int64, error) {
	keys := make(map[string]int64)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	for _, node := range s.Primaries() {
		names, err := s.Do(node, "KEYS", "*").AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("stage: KEYS: %w", err)
		}
		var commands rueidis.Commands
		for _, name := range names {
			commands = append(commands, s.admins[node].B().Pttl().Key(name).Build())
		}
		for i, reply := range s.admins[node].DoMulti(ctx, commands...) {
			left, err := reply.AsInt64()
			if err != nil {
				return nil, fmt.Errorf("stage: PTTL: %w", err)
			}
			if left != -2 {
				keys[names[i]] = left
			}
		}
	}
	return keys, nil
}

// IsQueue reports whether a key with so many milliseconds left is the queue of a lock. The tickets
// of killed clients stay in it until it is their turn, or until a minute has passed without a
// command about the queue.
func IsQueue(key string, left int64) bool {
	return strings.HasPrefix(key, "rlock_queue:") && left >= 0 && left <= time.Minute.Milliseconds()
}

// Subscriptions returns the channels of locks with subscribers at any data node. Each client has a
// channel of its own besides, and so have sentinels and replicas.
func (s *Stage) Subscriptions() (list []string, err error) {
	families := []string{"CHANNELS"}
	if s.Servers[0].HasShardedPubSub() {
		families = append(families, "SHARDCHANNELS")
	}
	for node := range s.admins {
		for _, family := range families {
			channels, err := s.Do(node, "PUBSUB", family).AsStrSlice()
			if err != nil {
				return nil, fmt.Errorf("stage: PUBSUB %s: %w", family, err)
			}
			list = append(list, slices.DeleteFunc(channels, func(c string) bool {
				return strings.HasPrefix(c, "__sentinel__") || strings.HasPrefix(c, "rlock_grants:client:")
			})...)
		}
	}
	return list, nil
}
