package rlock_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// A server at its limits. (TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked has a full
// server that may not evict keys.)

func (s *site) configure(parameter, value string) {
	s.t.Helper()
	set := s.outside.B().ConfigSet().ParameterValue().ParameterValue(parameter, value).Build()
	require.NoError(s.t, s.outside.Do(s.ctx, set).Error())
}

// closeConnections closes all connections but that of the outsider.
func (s *site) closeConnections() {
	s.t.Helper()
	for _, kind := range []string{"normal", "pubsub"} {
		require.NoError(s.t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Build()).Error())
	}
}

// calm sets the nodes' timeout to a minute: these tests kill no node, and a machine that is
// busy for a second must not cause a failover.
func calm(s *redistest.Server) *redistest.Server {
	if s.Kind != redistest.KindStandalone {
		s.TakeForDead(time.Minute)
	}
	return s
}

// replicasOf is the number of replicas of each primary.
var replicasOf = map[redistest.Kind]int{redistest.KindSentinel: 2, redistest.KindCluster: 1}

// replicated runs a test on servers of its own whose primaries have replicas.
func replicated(t *testing.T, run func(t *testing.T, s *site)) {
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindSentinel: redistest.Sentinel,
		redistest.KindCluster:  redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			run(t, at(t, calm(start(t))))
		})
	}
}

// pauseReplicas pauses all replicas of all primaries, once the key's primary knows that they
// have all its writes: from then on a WAIT for older writes succeeds. It returns a function
// that resumes them.
func (s *site) pauseReplicas() (resume func()) {
	s.t.Helper()
	primary, replicas := s.Primary(key), s.replicas()
	require.Eventually(s.t, func() bool {
		role := s.role(primary)
		return strings.Count(fmt.Sprint(role), "state=online,offset="+role["master_repl_offset"]+",") == replicasOf[s.Kind]
	}, hang, time.Millisecond)
	for _, r := range replicas {
		r.Pause()
	}
	return func() {
		for _, r := range replicas {
			r.Resume()
		}
	}
}

// replicas returns the nodes that follow a primary, in a Cluster any primary.
func (s *site) replicas() (replicas []*redistest.Server) {
	s.t.Helper()
	for _, node := range s.Nodes() {
		if s.role(node)["role"] == "slave" {
			replicas = append(replicas, node)
		}
	}
	return replicas
}

// replicaOf returns a node that follows the primary.
func (s *site) replicaOf(primary *redistest.Server) *redistest.Server {
	s.t.Helper()
	for _, node := range s.replicas() {
		if net.JoinHostPort(s.role(node)["master_host"], s.role(node)["master_port"]) == primary.Addr() {
			return node
		}
	}
	require.FailNow(s.t, "the primary has no replica")
	return nil
}

// role returns the node's replication state from INFO. It asks until it gets an answer: a
// sentinel closes all connections to a node whose role it changes, new ones as well.
func (s *site) role(node *redistest.Server) map[string]string {
	s.t.Helper()
	for {
		client, err := rueidis.NewClient(node.Options())
		var info string
		if err == nil {
			info, err = client.Do(s.ctx, client.B().Info().Section("replication").Build()).ToString()
		}
		if client != nil {
			client.Close()
		}
		if err == nil {
			return fieldsOf(info)
		}
		require.NoError(s.t, s.ctx.Err(), err.Error())
		time.Sleep(time.Millisecond)
	}
}

// info returns the fields of a section of INFO.
func (s *site) info(client rueidis.Client, section string) map[string]string {
	s.t.Helper()
	info, err := client.Do(s.ctx, client.B().Info().Section(section).Build()).ToString()
	require.NoError(s.t, err)
	return fieldsOf(info)
}

func fieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

func withReplicas(n int) func(*rlock.Config) {
	return func(c *rlock.Config) { c.SyncReplicas = n }
}
