package stage_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// parrot is the role of a child of this test: it repeats its job at each word.
const parrot = "STAGE_TEST_PARROT=1"

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(parrot, "="); os.Getenv(name) != value {
		redistest.Main(m)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	for job := lines.Text(); lines.Scan(); {
		fmt.Println(job)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var scene = stage.Scene{Workers: 2, Names: []string{"a", "b", "c"}, Lease: time.Second}

// open returns a stage with workers that do nothing, and clients that connect as workers do, one
// for each server.
func open(t *testing.T, topology stage.Topology) (s *stage.Stage, clients []rueidis.Client) {
	t.Helper()
	redistest.Standalone(t) // or skip
	s, err := stage.Open(topology, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	for range scene.Workers {
		require.NoError(t, s.Hire(func() (*exec.Cmd, error) { return redistest.Self(parrot) }, time.Minute, func(life int) any { return life }))
	}
	for _, a := range s.Addresses() {
		option := a.Option()
		option.DisableCache = true
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		clients = append(clients, client)
	}
	return s, clients
}

// Each kind breaks a server of the first topology that it is for, which works when it is healed.
func TestEveryFaultIsInjectedAndHealed(t *testing.T) {
	redistest.Standalone(t) // or skip
	for _, topology := range stage.Topologies {
		t.Run(string(topology), func(t *testing.T) {
			t.Parallel() // they mostly wait
			s, clients := open(t, topology)
			random, before := rand.New(rand.NewPCG(1, 2)), settings(t, s)
			seen := make(map[string]bool)
			for _, kind := range stage.For(topology) {
				require.False(t, seen[kind.Name], "a topology has one kind of a name")
				seen[kind.Name] = true
				f := kind.Choose(random, scene)
				require.Equal(t, strings.HasSuffix(kind.Name, "-worker"), f.Worker >= 0)
				require.Equal(t, kind.Name == "del", f.Lock != "")
				if kind.Where[0] != topology {
					continue
				}
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

func heal(t *testing.T, f *stage.Fault, s *stage.Stage) {
	t.Helper()
	require.Eventually(t, func() bool { return f.Heal(s) == nil }, time.Minute, 10*time.Millisecond)
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
