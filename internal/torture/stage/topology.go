package stage

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A Topology is a way to run Redis.
type Topology string

const (
	Standalone Topology = "standalone" // forgets all when it is restarted
	AOF        Topology = "aof"        // standalone, with an append-only file
	Sentinel   Topology = "sentinel"   // a primary, two replicas, three sentinels
	Cluster    Topology = "cluster"    // three primaries with a replica each
)

// Topologies are all there are.
func Topologies() []Topology { return []Topology{Standalone, AOF, Sentinel, Cluster} }

// Workers connect as a user of their own, so that rights can be taken from them
// and from nobody else.
const (
	User     = "worker"
	Password = "of-the-worker"
)

// start starts the servers, in the hands of k.
func (t Topology) start(k *keeper) (server *redistest.Server, err error) {
	// A file of users: those of the command line would stand in the configuration
	// as well, once a server has rewritten it.
	users := filepath.Join(k.dir, "users.acl")
	text := fmt.Sprintf("user default on nopass ~* &* +@all\nuser %s on >%s ~* &* +@all\n", User, Password)
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	args := []string{"--aclfile", users}
	err = attempt(func() {
		switch t {
		case Standalone:
			server = redistest.Standalone(k, args...)
		case AOF:
			server = redistest.Standalone(k, append(args, "--appendonly", "yes", "--appendfsync", "always")...)
		case Sentinel:
			server = redistest.Sentinel(k, args...)
		case Cluster:
			server = redistest.Cluster(k, args...)
		default:
			k.Fatalf("stage: no topology is called %q", t)
		}
	})
	return server, err
}

// An Address says how a worker reaches the servers. It travels as JSON.
type Address struct {
	Topology  Topology
	Init      []string          // where a client begins
	MasterSet string            // Sentinel only
	Networks  map[string]string // by a node's address, that of the network in front of it
}

// Address says how somebody who is no worker reaches the servers: through networks
// that only faults of Everyone disturb.
func (s *Stage) Address() Address { return s.AddressOf(int(Everyone)) }

// AddressOf says how a worker, who was hired, reaches the servers: through networks
// of its own.
func (s *Stage) AddressOf(worker int) Address {
	option := s.Server.Options()
	return Address{Topology: s.Topology, Init: option.InitAddress, MasterSet: option.Sentinel.MasterSet, Networks: s.Networks.of(worker)}
}

// Dial dials a node's network in its stead; it is made for DialCtxFn of rueidis.
// Sentinels have no network and are dialled themselves.
func (a Address) Dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if network, ok := a.Networks[addr]; ok {
		addr = network
	}
	return dialer.DialContext(ctx, "tcp", addr)
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
