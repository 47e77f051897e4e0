package testbed

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

func (s *Site) Configure(parameter, value string) {
	s.T.Helper()
	set := s.Outside.B().ConfigSet().ParameterValue().ParameterValue(parameter, value).Build()
	require.NoError(s.T, s.Outside.Do(s.Ctx, set).Error())
}

// CloseConnections closes all connections but that of the outsider.
func (s *Site) CloseConnections() {
	s.T.Helper()
	for _, kind := range []string{"normal", "pubsub"} {
		require.NoError(s.T, s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Build()).Error())
	}
}

// Calm sets the nodes' timeout to a minute: these tests kill no node, and a machine that is
// busy for a second must not cause a failover.
func Calm(s *redistest.Server) *redistest.Server {
	if s.Kind != redistest.KindStandalone {
		s.TakeForDead(time.Minute)
	}
	return s
}

// ReplicasOf is the number of replicas of each primary.
var ReplicasOf = map[redistest.Kind]int{redistest.KindSentinel: 2, redistest.KindCluster: 1}

// Replicated runs a test on servers of its own whose primaries have replicas.
func Replicated(t *testing.T, run func(t *testing.T, s *Site)) {
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindSentinel: redistest.Sentinel,
		redistest.KindCluster:  redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			run(t, At(t, Calm(start(t))))
		})
	}
}

// PauseReplicas pauses all replicas of all primaries, once the key's primary knows that they
// have all its writes: from then on a WAIT for older writes succeeds. It returns a function
// that resumes them.
func (s *Site) PauseReplicas() (resume func()) {
	s.T.Helper()
	primary, replicas := s.Primary(Key), s.Replicas()
	require.Eventually(s.T, func() bool {
		role := s.Role(primary)
		return strings.Count(fmt.Sprint(role), "state=online,offset="+role["master_repl_offset"]+",") == ReplicasOf[s.Kind]
	}, Hang, time.Millisecond)
	for _, r := range replicas {
		r.Pause()
	}
	return func() {
		for _, r := range replicas {
			r.Resume()
		}
	}
}

// Replicas returns the nodes that follow a primary, in a Cluster any primary.
func (s *Site) Replicas() (replicas []*redistest.Server) {
	s.T.Helper()
	for _, node := range s.Nodes() {
		if s.Role(node)["role"] == "slave" {
			replicas = append(replicas, node)
		}
	}
	return replicas
}

// ReplicaOf returns a node that follows the primary.
func (s *Site) ReplicaOf(primary *redistest.Server) *redistest.Server {
	s.T.Helper()
	for _, node := range s.Replicas() {
		if net.JoinHostPort(s.Role(node)["master_host"], s.Role(node)["master_port"]) == primary.Addr() {
			return node
		}
	}
	require.FailNow(s.T, "the primary has no replica")
	return nil
}

// Role returns the node's replication state from INFO. It asks until it gets an answer: a
// sentinel closes all connections to a node whose role it changes, new ones as well.
func (s *Site) Role(node *redistest.Server) map[string]string {
	s.T.Helper()
	for {
		client, err := rueidis.NewClient(node.Options())
		var info string
		if err == nil {
			info, err = client.Do(s.Ctx, client.B().Info().Section("replication").Build()).ToString()
		}
		if client != nil {
			client.Close()
		}
		if err == nil {
			return FieldsOf(info)
		}
		require.NoError(s.T, s.Ctx.Err(), err.Error())
		time.Sleep(time.Millisecond)
	}
}

// Info returns the fields of a section of INFO.
func (s *Site) Info(client rueidis.Client, section string) map[string]string {
	s.T.Helper()
	info, err := client.Do(s.Ctx, client.B().Info().Section(section).Build()).ToString()
	require.NoError(s.T, err)
	return FieldsOf(info)
}

func FieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

func WithReplicas(n int) func(*rlock.Config) {
	return func(c *rlock.Config) { c.SyncReplicas = n }
}
