package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/redistest"
)

// patience is how long a node may take to answer the stage itself.
const patience = 2 * time.Second

// A Stage is one Redis, or several. Server and its methods belong to one goroutine at a time; the rest may be called
// concurrently.
type Stage struct {
	Topology Topology
	Servers  []*redistest.Server // call their methods within Attempt; one but for Independent
	Server   *redistest.Server   // the first
	Workers  []*Worker           // added by Hire

	keeper redistest.Program
	nodes  []*redistest.Server
	admins []rueidis.Client // one of each data node
}

// Open starts the servers of a topology. Its files are below dir.
func Open(topology Topology, dir string) (*Stage, error) {
	s := &Stage{Topology: topology, keeper: redistest.Program{Dir: dir}}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) open() (err error) {
	if s.Servers, err = s.Topology.start(&s.keeper); err != nil {
		return err
	}
	s.Server = s.Servers[0]
	for _, server := range s.Servers {
		s.nodes = append(s.nodes, server.Nodes()...)
	}
	for _, node := range s.nodes {
		admin, err := rueidis.NewClient(adminOption(node))
		if err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		s.admins = append(s.admins, admin)
	}
	return nil
}

// Nodes is how many data nodes there are.
func (s *Stage) Nodes() int { return len(s.nodes) }

// adminOption is for one connection that outlasts a paused node: where maxclients is reached
// there is no second one, and a command must be executed before the one that undoes it.
func adminOption(node *redistest.Server) rueidis.ClientOption {
	option := node.Options()
	option.PipelineMultiplex, option.AlwaysPipelining, option.AlwaysRESP2 = -1, true, true
	option.ConnWriteTimeout = time.Minute
	return option
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

// Attempt calls f, which may call the methods of Server, and returns the error with which a
// test would have failed.
func (s *Stage) Attempt(f func()) error { return redistest.Attempt(f) }

// Ready waits until the servers that run are in order: until the new primaries have taken
// over, and the replicas follow.
func (s *Stage) Ready() error {
	if s.Topology.single() {
		return nil
	}
	return redistest.Attempt(s.Server.Start)
}

// Do sends a command to one data node.
func (s *Stage) Do(node int, command ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.admins[node].Do(ctx, s.admins[node].B().Arbitrary(command...).Build())
}

// Everywhere sends a command to all data nodes. Nodes that cannot be reached
// are an error, after the others had it.
func (s *Stage) Everywhere(command ...string) error {
	var failed error
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

// Reigns returns the data nodes that call themselves primaries and answer, each with the
// replication id that it chose when it became a primary. Without failover there are none.
func (s *Stage) Reigns() (list []string) {
	if s.Topology.single() {
		return nil
	}
	for _, node := range s.Primaries() {
		info, err := s.Do(node, "INFO", "replication").ToString()
		if err != nil {
			continue
		}
		for line := range strings.Lines(info) {
			if id, ok := strings.CutPrefix(line, "master_replid:"); ok {
				list = append(list, fmt.Sprintf("%d: %s", node, strings.TrimSpace(id)))
			}
		}
	}
	return list
}

// OnPrimaries sends a command to the primaries. It is an error if none of them executes it;
// in a Cluster, those that do not serve the key refuse.
func (s *Stage) OnPrimaries(command ...string) error {
	failed := errors.New("stage: no primary answers")
	done := false
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

// Keys returns the keys of all primaries, with the milliseconds they have left,
// -1 for those without end.
func (s *Stage) Keys() (map[string]int64, error) {
	keys := make(map[string]int64)
	for _, node := range s.Primaries() {
		names, err := s.Do(node, "KEYS", "*").AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("stage: KEYS: %w", err)
		}
		if err := s.times(node, names, keys); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// times adds the keys of a node that are still there, with the milliseconds they have left. A
// round trip a key would take minutes with thousands of them on a busy machine.
func (s *Stage) times(node int, names []string, keys map[string]int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := s.admins[node]
	commands := make(rueidis.Commands, len(names))
	for i, name := range names {
		commands[i] = admin.B().Pttl().Key(name).Build()
	}
	for i, reply := range admin.DoMulti(ctx, commands...) {
		left, err := reply.AsInt64()
		if err != nil {
			return fmt.Errorf("stage: PTTL: %w", err)
		}
		if left != -2 {
			keys[names[i]] = left
		}
	}
	return nil
}

// IsQueue reports whether a key with so many milliseconds left is the queue of a lock. The
// tickets of killed clients stay in it until it is their turn, or until a minute has passed
// without a command about the queue.
func IsQueue(key string, left int64) bool {
	return strings.HasPrefix(key, "rlock_queue:") && left >= 0 && left <= time.Minute.Milliseconds()
}

// Listeners returns the data nodes' entries of the connections with subscriptions: their age
// and their last command show their owner.
func (s *Stage) Listeners() (list []string) {
	for node := range s.admins {
		clients, err := s.Do(node, "CLIENT", "LIST").ToString()
		if err != nil {
			list = append(list, err.Error())
		}
		for line := range strings.Lines(clients) {
			// Redis 6.2 counts no ssub.
			if !strings.Contains(line, " sub=0 ") || strings.Contains(line, " ssub=") && !strings.Contains(line, " ssub=0 ") {
				list = append(list, strings.TrimSpace(line))
			}
		}
	}
	return list
}

// Channels returns the channels with subscribers at any data node, without those of sentinels
// and replicas.
func (s *Stage) Channels() ([]string, error) {
	var channels []string
	families := []string{"CHANNELS"}
	if s.Server.HasShardedPubSub() {
		families = append(families, "SHARDCHANNELS")
	}
	for node := range s.admins {
		for _, family := range families {
			list, err := s.Do(node, "PUBSUB", family).AsStrSlice()
			if err != nil {
				return nil, fmt.Errorf("stage: PUBSUB %s: %w", family, err)
			}
			for _, channel := range list {
				if !strings.HasPrefix(channel, "__sentinel__") {
					channels = append(channels, channel)
				}
			}
		}
	}
	return channels, nil
}
