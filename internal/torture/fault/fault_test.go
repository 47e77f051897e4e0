package fault_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/fault"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// idler is the role of a child process of this test that does nothing. Without a role the
// child would run the tests, and start children.
const idler = "FAULT_TEST_IDLER=1"

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(idler, "="); os.Getenv(name) == value {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with its parent
		return
	}
	redistest.Main(m)
}

var scene = fault.Scene{Workers: 2, Names: []string{"a", "b", "c"}, Lease: time.Second}

// In TestEveryFaultIsInjectedAndHealed each kind breaks a server of the first topology that
// it is for, and checks that the server works when it is healed.
func TestEveryFaultIsInjectedAndHealed(t *testing.T) {
	redistest.Standalone(t) // or skip
	for _, topology := range stage.Topologies() {
		kinds := slices.DeleteFunc(fault.For(topology), func(k fault.Kind) bool { return k.Where[0] != topology })
		t.Run(string(topology), func(t *testing.T) {
			t.Parallel() // they mostly wait
			s, err := stage.Open(topology, t.TempDir())
			require.NoError(t, err)
			t.Cleanup(s.Close)
			for range scene.Workers {
				_, err := s.Hire(func() (*exec.Cmd, error) { return redistest.Self(idler) }, time.Minute, func(int) any { return nil })
				require.NoError(t, err)
			}
			clients := worker(t, s)
			random, before := rand.New(rand.NewPCG(1, 2)), settings(t, s)
			for _, kind := range kinds {
				f := kind.Choose(random, scene)
				t.Run(fmt.Sprint(kind.Name, ": ", f), func(t *testing.T) {
					require.NoError(t, f.Heal(s), "before it was injected")
					require.NoError(t, f.Inject(s))
					heal(t, f, s)
					heal(t, f, s) // a second time
					require.NoError(t, s.Ready())
					require.Equal(t, before, settings(t, s))
					whole(t, s, clients)
				})
			}
		})
	}
}

// settings are the limits of the servers, and the rights of the workers.
func settings(t *testing.T, s *stage.Stage) (all []string) {
	t.Helper()
	for node := range s.Nodes() {
		limits, err := s.Do(node, "CONFIG", "GET", "max*").AsStrMap()
		require.NoError(t, err)
		rights, err := s.Do(node, "ACL", "LIST").AsStrSlice()
		require.NoError(t, err)
		all = append(all, fmt.Sprint(limits, rights))
	}
	return all
}

func heal(t *testing.T, f *fault.Fault, s *stage.Stage) {
	t.Helper()
	require.Eventually(t, func() bool { return f.Heal(s) == nil }, time.Minute, 10*time.Millisecond)
}

// worker returns clients that connect as the workers do, one for each server.
func worker(t *testing.T, s *stage.Stage) (clients []rueidis.Client) {
	t.Helper()
	for _, a := range s.Address().Servers() {
		option := a.Option()
		option.DisableCache = true
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		clients = append(clients, client)
	}
	return clients
}

// whole requires that workers can use everything again, and that no key is left.
func whole(t *testing.T, s *stage.Stage, clients []rueidis.Client) {
	t.Helper()
	for _, client := range clients {
		for _, name := range scene.Names {
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				script := client.B().Eval().Script("redis.call('set', KEYS[1], '1') return redis.call('del', KEYS[1])").Numkeys(1).Key(name).Build()
				return client.Do(ctx, script).Error() == nil
			}, time.Minute, 10*time.Millisecond)
		}
	}
	keys, err := s.Keys()
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestAFaultThatMeetsAStoppedServerIsMissedAndHealedLater(t *testing.T) {
	redistest.Standalone(t) // or skip
	s, err := stage.Open(stage.Standalone, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	clients, random := worker(t, s), rand.New(rand.NewPCG(1, 2))
	restart := choose(t, "restart", random)
	for _, name := range []string{"maxclients", "out-of-memory", "refuse-command", "flushall", "del", "evict", "client-pause", "pause-server"} {
		f := choose(t, name, random)
		require.NoError(t, restart.Inject(s))
		require.Error(t, f.Inject(s), name)
		require.NoError(t, restart.Heal(s))
		heal(t, f, s)
		whole(t, s, clients)
	}
}

// A slot that stays in migration serves no script with two keys.
func TestASlotWhoseMoveWasInterruptedIsMovedBack(t *testing.T) {
	redistest.Standalone(t) // or skip
	s, err := stage.Open(stage.Cluster, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	client := worker(t, s)[0]
	for _, name := range scene.Names {
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key(name).Value("kept").Build()).Error())
	}
	random := rand.New(rand.NewPCG(1, 2))
	full := fault.For(stage.Cluster, "out-of-memory")[0].Choose(random, scene)
	move := fault.For(stage.Cluster, "move-slot")[0].Choose(random, scene)
	before := s.Primaries()
	require.NoError(t, full.Inject(s))
	require.Error(t, move.Inject(s))
	require.Error(t, move.Heal(s))
	heal(t, full, s)
	heal(t, move, s)

	require.Equal(t, before, s.Primaries())
	for _, node := range before {
		nodes, err := s.Do(node, "CLUSTER", "NODES").ToString()
		require.NoError(t, err)
		require.NotContains(t, nodes, "[", "a slot in migration")
	}
	for _, name := range scene.Names {
		require.NoError(t, client.Do(t.Context(), client.B().Getdel().Key(name).Build()).Error())
	}
	whole(t, s, []rueidis.Client{client})
}

func choose(t *testing.T, name string, random *rand.Rand) *fault.Fault {
	t.Helper()
	kinds := fault.For(stage.Standalone, name)
	require.Len(t, kinds, 1, name)
	return kinds[0].Choose(random, scene)
}

func TestATopologyHasOneKindOfAName(t *testing.T) {
	for _, topology := range stage.Topologies() {
		seen := make(map[string]bool)
		for _, kind := range fault.For(topology) {
			require.False(t, seen[kind.Name], "%s: %s", topology, kind.Name)
			seen[kind.Name] = true
		}
		require.Greater(t, len(seen), 10)
	}
}

func TestAFaultOfAWorkerOrOfALockNamesIt(t *testing.T) {
	for _, kind := range fault.All() {
		f := kind.Choose(rand.New(rand.NewPCG(1, 2)), scene)
		require.Equal(t, strings.HasSuffix(kind.Name, "-worker"), f.Worker >= 0, kind.Name)
		require.Equal(t, kind.Name == "del", f.Lock != "", kind.Name)
		if f.Worker >= 0 {
			require.Contains(t, f.String(), fmt.Sprint("worker ", f.Worker))
		}
		require.Contains(t, f.String(), f.Lock)
	}
}

func TestKindsAreChosenByName(t *testing.T) {
	names, err := fault.Parse("flushall,move-slot")
	require.NoError(t, err)
	require.Len(t, fault.For(stage.Cluster, names...), 2)
	require.Len(t, fault.For(stage.Standalone, names...), 1)
	names, err = fault.Parse("")
	require.NoError(t, err)
	require.Empty(t, names)
	_, err = fault.Parse("flushall,earthquake")
	require.ErrorContains(t, err, "earthquake")
}
