package redistest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	nodes     []*instance      // the data nodes; KindCluster: node i and node i+3 are a shard
	sentinels []*instance      // KindSentinel only
}

// Each runs one test over all four kinds, as sub-tests that bear their names. The
// server is empty. Under [Main] the Sentinel and the Cluster are shared with other
// tests: they refuse faults, and since each use empties them, tests that run in
// parallel must not use Each.
func Each(t *testing.T, run func(t *testing.T, s *Server)) {
	Over(t, []Kind{KindEmbedded, KindStandalone, KindSentinel, KindCluster}, run)
}

// Over is Each for some of the kinds.
func Over(t *testing.T, kinds []Kind, run func(t *testing.T, s *Server)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			switch kind {
			case KindEmbedded:
				run(t, Embedded(t))
			case KindStandalone:
				run(t, Standalone(t))
			case KindSentinel:
				run(t, borrow(t, kind, laySentinel))
			case KindCluster:
				run(t, borrow(t, kind, layCluster))
			}
		})
	}
}

// Embedded returns a miniredis whose keys expire by the clock, to be reached only over
// pipes, through the DialCtxFn of [Server.Options]. It needs no redis-server and may be
// used in a testing/synctest bubble, if it was made there. The documentation of package
// inmemory lists the missing features.
func Embedded(t testing.TB) *Server {
	t.Helper()
	WithoutServer(t)
	e := inmemory.New()
	t.Cleanup(e.Close)
	return &Server{Kind: KindEmbedded, t: t, embedded: e}
}

// Bubble runs a test with an Embedded in virtual time: see [Virtual].
func Bubble(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Helper()
	WithoutServer(t) // before the bubble, which a test cannot leave by skipping
	Virtual(t, func(t *testing.T) { run(t, Embedded(t)) })
}

// Standalone starts one redis-server, which the end of the test removes. The
// arguments follow on its command line and override the defaults, which are
// no snapshots, no append-only file, and DEBUG allowed from loopback.
func Standalone(t testing.TB, args ...string) *Server {
	t.Helper()
	return own(t, layStandalone, args...)
}

// Sentinel starts a primary with two replicas and three sentinels. It returns when the
// replicas are in sync and each sentinel knows all the others. The arguments are for the
// data nodes, as in [Standalone].
func Sentinel(t testing.TB, args ...string) *Server {
	t.Helper()
	return own(t, laySentinel, args...)
}

// Cluster starts three primaries with a replica each, and a third of the slots on
// each pair. It returns when every node finds the cluster in order and every replica
// is in sync. The arguments are for the nodes, as in [Standalone].
func Cluster(t testing.TB, args ...string) *Server {
	t.Helper()
	return own(t, layCluster, args...)
}

// A layout lists the instances of a server of its kind, with the contents of their files. It
// starts nothing. It may use six ports: three nodes and three sentinels, or six nodes.
type layout func(i installation, dir string, ports []int) *Server

func layStandalone(i installation, dir string, ports []int) *Server {
	return &Server{Kind: KindStandalone, nodes: []*instance{i.node(dir, ports[0], "")}}
}

// withoutTLS matches the error of a server that was built without TLS, up to 7.0 and later.
var withoutTLS = regexp.MustCompile(`>>> 'tls-port|connection type tls`)

// own starts a server for t alone.
func own(t testing.TB, lay layout, args ...string) *Server {
	t.Helper()
	s, err := start(lay, installed(t, args), t.TempDir())
	if err != nil && withoutTLS.MatchString(err.Error()) && os.Getenv(requireVariable) != "1" {
		t.Skip("redis-server was built without TLS")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s.lend(t)
}

// lend returns the server for t. The gate reads the line that it logs, as proof that a real
// server took part.
func (s *Server) lend(t testing.TB) *Server {
	t.Helper()
	lent := *s
	lent.t = t
	t.Logf("redistest: %s at %s (%s)", s.Kind, s.Addr(), s.program.release)
	return &lent
}

// start starts a server, or nothing and returns an error. It tries other ports when another
// program took the chosen ones.
func start(lay layout, i installation, dir string) (*Server, error) {
	for attempt := 1; ; attempt++ {
		ports, guards, err := reservePorts(6)
		if err != nil {
			return nil, err
		}
		s := lay(i, dir, ports)
		s.program, s.guards = i, guards
		if err = s.run(); err == nil {
			return s, nil
		}
		s.close()
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			return nil, err
		}
	}
}

func (s *Server) instances() []*instance { return slices.Concat(s.nodes, s.sentinels) }

// run starts those instances that do not run, side by side, and returns when the
// server as a whole is ready.
func (s *Server) run() error {
	stopped := slices.DeleteFunc(s.instances(), (*instance).running)
	for _, p := range stopped {
		if err := p.launch(); err != nil {
			return err
		}
	}
	for _, p := range stopped {
		if err := p.await(); err != nil {
			return err
		}
	}
	switch s.Kind {
	case KindSentinel:
		return eventually(s.sentinelReady)
	case KindCluster:
		return eventually(s.clusterReady)
	default:
		return nil
	}
}

// kill ends all instances of the server, in whatever state they are.
func (s *Server) kill() {
	for _, p := range s.instances() {
		p.kill()
	}
}

// close ends the server for good: others may have its ports.
func (s *Server) close() {
	s.kill()
	s.guards.release()
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
		return rueidis.ClientOption{InitAddress: addrs(s.nodes), DisableCache: true, ForceSingleClient: true}
	}
}

func addrs(instances []*instance) (list []string) {
	for _, p := range instances {
		list = append(list, p.addr())
	}
	return list
}

// Addr returns the address of the first connection: of a Sentinel's first sentinel, of a
// Cluster's first node. An Embedded does not listen at its address.
func (s *Server) Addr() string { return s.Options().InitAddress[0] }

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
func (s *Server) Nodes() (nodes []*Server) {
	if s.embedded != nil {
		return []*Server{s}
	}
	for _, p := range s.nodes {
		nodes = append(nodes, s.alone(p))
	}
	return nodes
}

// alone returns one node of the server.
func (s *Server) alone(p *instance) *Server {
	return &Server{Kind: KindStandalone, t: s.t, shared: s.shared, program: s.program, nodes: []*instance{p}}
}

// Major returns the major version of the server program, Redis' or Valkey's own, or 0 for
// an Embedded.
func (s *Server) Major() int { return s.program.major }

// HasShardedPubSub reports whether the server knows SSUBSCRIBE and SPUBLISH, as Redis
// and Valkey do from 7 on.
func (s *Server) HasShardedPubSub() bool { return s.program.major >= 7 }

// callsOf finds a command and its number in INFO: cmdstat_evalsha:calls=2,usec=...
var callsOf = regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`)

// CountCalls returns how often each command was executed while run ran, by its
// name in lower case ("evalsha", "config|get"), on all primaries together. Commands
// that were not executed are absent.
//
// The commands of a script count too, next to the script's own EVALSHA. So do the commands
// that clients and servers send by themselves ("ping", "hello", "replconf"): look at names,
// not at sums. The count of a server that is stopped or changes its role during run is lost.
func (s *Server) CountCalls(t testing.TB, run func()) map[string]int64 {
	t.Helper()
	sum := make(map[string]int64)
	add := func(sign int64) {
		if s.embedded != nil {
			for command, n := range s.embedded.Calls() {
				sum[command] += sign * n
			}
		}
		for _, p := range s.runningNodes() {
			info, err := p.do("INFO", "all").ToString()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(info, "role:master") {
				continue
			}
			for _, call := range callsOf.FindAllStringSubmatch(info, -1) {
				n, _ := strconv.ParseInt(call[2], 10, 64)
				sum[call[1]] += sign * n
			}
		}
	}
	add(-1)
	run()
	add(1)
	for command, n := range sum {
		if n == 0 {
			delete(sum, command)
		}
	}
	return sum
}

// flush removes all keys and scripts. A replica, which refuses, follows its primary.
func (s *Server) flush() error {
	for _, p := range s.runningNodes() {
		err := p.do("FLUSHALL").Error()
		if err != nil && strings.HasPrefix(err.Error(), "READONLY") {
			continue
		}
		if err = errors.Join(err, p.do("SCRIPT", "FLUSH").Error()); err != nil {
			return fmt.Errorf("redistest: flushing %s: %w", p.addr(), err)
		}
	}
	return nil
}

// unchanged returns an error if a primary is not the one with which the server began.
func (s *Server) unchanged() error {
	switch s.Kind {
	case KindSentinel:
		p, err := s.sentinelPrimary()
		if err == nil && p != s.nodes[0] {
			err = fmt.Errorf("redistest: the sentinels have made %s the primary, which was %s", p.addr(), s.nodes[0].addr())
		}
		return err
	case KindCluster:
		for shard, first := range s.nodes[:shards] {
			p, err := s.clusterPrimary(firstSlot(shard))
			if err == nil && p != first {
				err = fmt.Errorf("redistest: the nodes have made %s the primary of a shard, which was %s", p.addr(), first.addr())
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
