package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/inmemory"
)

// A Kind is one of the four ways in which Redis is run. It is also the name of
// the sub-test in [Each].
type Kind string

const (
	KindEmbedded   Kind = "embedded"
	KindStandalone Kind = "standalone"
	KindSentinel   Kind = "sentinel"
	KindCluster    Kind = "cluster"
)

// masterSet is the name under which the sentinels know the primary.
const masterSet = "rlock"

// A Server is a Redis of one of the four kinds, for one test. Its methods fail that test if
// they cannot do their work. Call them from the test's goroutine, one at a time; other use of
// the server over the network is not restricted.
type Server struct {
	Kind Kind

	t         testing.TB
	shared    bool             // other tests will use it: no faults
	embedded  *inmemory.Server // KindEmbedded only
	program   installation     // of nodes and sentinels; zero for KindEmbedded
	guards    guards           // of their ports
	nodes     []*process       // the data nodes; KindCluster: node i and node i+3 are a shard
	sentinels []*process       // KindSentinel only
}

// Standalone starts one redis-server, which the end of the test removes. The
// arguments follow on its command line and override the defaults, which are
// no snapshots, no append-only file, and DEBUG allowed from loopback.
func Standalone(t testing.TB, args ...string) *Server {
	t.Helper()
	return own(t, layStandalone, args)
}

// Sentinel starts a primary with two replicas and three sentinels that take one
// second to find it dead. It returns when the replicas are in sync and each
// sentinel knows all the others. The arguments are for the data nodes, as in [Standalone].
func Sentinel(t testing.TB, args ...string) *Server {
	t.Helper()
	return own(t, laySentinel, args)
}

// Cluster starts three primaries with a replica each, a third of the slots on
// each pair, and a node timeout of two seconds. It returns when every node finds
// the cluster in order and every replica is in sync. The arguments are for the
// nodes, as in [Standalone].
func Cluster(t testing.TB, args ...string) *Server {
	t.Helper()
	return own(t, layCluster, args)
}

// Options returns the options of a connection to the server, and nothing else: the caller
// adds its own settings. DisableCache is set, since miniredis has no CLIENT TRACKING.
func (s *Server) Options() rueidis.ClientOption {
	switch s.Kind {
	case KindEmbedded:
		return s.embedded.Options()
	case KindSentinel:
		return rueidis.ClientOption{InitAddress: addrs(s.sentinels), DisableCache: true, Sentinel: rueidis.SentinelOption{MasterSet: masterSet}}
	case KindCluster:
		return rueidis.ClientOption{InitAddress: addrs(s.nodes), DisableCache: true}
	default:
		// A node of a Cluster, as Primary returns it, would otherwise be taken for the whole.
		return rueidis.ClientOption{InitAddress: addrs(s.nodes), DisableCache: true, ForceSingleClient: true, DialCtxFn: s.nodes[0].dial}
	}
}

func addrs(processes []*process) []string {
	list := make([]string, len(processes))
	for i, p := range processes {
		list[i] = p.addr()
	}
	return list
}

// Addr returns the address of the first connection: of a Sentinel's first sentinel, of a
// Cluster's first node. An Embedded does not listen at its address.
func (s *Server) Addr() string {
	return s.Options().InitAddress[0]
}

// Client returns a client of its own for looking at the server from outside,
// with one connection for all commands, so that they are executed in the order in
// which they are sent. It is closed when t ends.
func (s *Server) Client(t testing.TB) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(observer(s.Options()))
	if client != nil {
		t.Cleanup(client.Close)
	}
	if err != nil {
		t.Fatalf("redistest: connecting with %s at %s: %v", s.Kind, s.Addr(), err)
	}
	return client
}

// observer changes option so that a client is cheap and its commands ordered.
func observer(option rueidis.ClientOption) rueidis.ClientOption {
	option.PipelineMultiplex, option.AlwaysPipelining = -1, true
	option.RingScaleEachConn = 8
	option.ReadBufferEachConn, option.WriteBufferEachConn = 32<<10, 32<<10
	// A running server answers, however busy the machine is.
	option.ConnWriteTimeout, option.Dialer.Timeout = patience, patience
	return option
}

// Nodes returns the data nodes, each as a server of its own, of [KindStandalone]
// and with no life beyond s: to look at one node, stop it, or pause it. An
// Embedded is its only node.
func (s *Server) Nodes() []*Server {
	if s.embedded != nil {
		return []*Server{s}
	}
	nodes := make([]*Server, len(s.nodes))
	for i, p := range s.nodes {
		nodes[i] = s.node(p)
	}
	return nodes
}

func (s *Server) node(p *process) *Server {
	return &Server{Kind: KindStandalone, t: s.t, shared: s.shared, program: s.program, nodes: []*process{p}}
}

// Major returns the major version of the server program, Redis' or Valkey's own, or 0 for
// an Embedded.
func (s *Server) Major() int { return s.program.major }

// HasShardedPubSub reports whether the server knows SSUBSCRIBE and SPUBLISH, as Redis
// and Valkey do from 7 on.
func (s *Server) HasShardedPubSub() bool { return s.program.major >= 7 }

// flush removes all keys and scripts. A replica follows its primary.
func (s *Server) flush() error {
	primaries, err := s.primaries()
	if err != nil {
		return err
	}
	for _, p := range primaries {
		for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}} {
			if err := p.do(command...).Error(); err != nil {
				return fmt.Errorf("redistest: %v of %s: %w", command, p.addr(), err)
			}
		}
	}
	return nil
}
