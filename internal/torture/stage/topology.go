package stage

import (
	"fmt"
	"os"
	"path/filepath"

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

// Apart is how many servers Independent has.
const Apart = 3

// Topologies returns all of them.
func Topologies() []Topology { return []Topology{Standalone, AOF, Sentinel, Cluster, Independent} }

// Workers connect as a user of their own, so that rights can be taken from them alone.
const (
	User     = "worker"
	Password = "of-the-worker"
)

// start starts the servers, for k.
func (t Topology) start(k *redistest.Program) (servers []*redistest.Server, err error) {
	// A file of users: users of the command line would be in the configuration as well, once
	// a server has rewritten it.
	users := filepath.Join(k.Dir, "users.acl")
	text := fmt.Sprintf("user default on nopass ~* &* +@all\nuser %s on >%s ~* &* +@all\n", User, Password)
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	args := []string{"--aclfile", users}
	lasting := append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)
	err = redistest.Attempt(func() {
		switch t {
		case Standalone:
			servers = append(servers, redistest.Standalone(k, args...))
		case AOF:
			servers = append(servers, redistest.Standalone(k, lasting...))
		case Sentinel:
			servers = append(servers, redistest.Sentinel(k, args...))
		case Cluster:
			servers = append(servers, redistest.Cluster(k, args...))
		case Independent:
			for range Apart {
				servers = append(servers, redistest.Standalone(k, lasting...))
			}
		default:
			k.Fatalf("stage: no topology is called %q", t)
		}
	})
	return servers, err
}

// single reports whether no server takes over from another.
func (t Topology) single() bool { return t != Sentinel && t != Cluster }

// An Address tells a worker how to reach the servers. It travels as JSON.
type Address struct {
	Topology  Topology
	Init      []string // the first addresses of a client
	MasterSet string   // Sentinel only
}

// Address returns the address of the servers.
func (s *Stage) Address() Address {
	a := Address{Topology: s.Topology}
	for _, server := range s.Servers {
		option := server.Options()
		a.Init, a.MasterSet = append(a.Init, option.InitAddress...), option.Sentinel.MasterSet
	}
	return a
}

// Servers returns an address for each independent server.
func (a Address) Servers() (list []Address) {
	if a.Topology != Independent {
		return []Address{a}
	}
	for _, init := range a.Init {
		list = append(list, Address{Topology: AOF, Init: []string{init}})
	}
	return list
}

// Replicated reports whether the servers have replicas.
func (a Address) Replicated() bool { return !a.Topology.single() }

// Option is how a worker connects to one of Servers.
func (a Address) Option() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: a.Init, Username: User, Password: Password,
		Sentinel:          rueidis.SentinelOption{MasterSet: a.MasterSet},
		ForceSingleClient: a.Topology.single(),
	}
}

// ParseTopology returns the topology of that name.
func ParseTopology(name string) (Topology, error) {
	for _, t := range Topologies() {
		if string(t) == name {
			return t, nil
		}
	}
	return "", fmt.Errorf("stage: no topology is called %q: there are %v", name, Topologies())
}
