package stage_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

// parrot is the role of a child of this test: it repeats its job at each word.
const parrot = "STAGE_TEST_PARROT=1"

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(parrot, "="); os.Getenv(name) == value {
		repeat()
		return
	}
	redistest.Main(m)
}

func repeat() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	job := lines.Text()
	for lines.Scan() {
		fmt.Println(job)
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}

func open(t *testing.T, topology stage.Topology) *stage.Stage {
	t.Helper()
	redistest.Standalone(t) // or skip
	s, err := stage.Open(topology, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func hire(t *testing.T, s *stage.Stage) *stage.Worker {
	t.Helper()
	w, err := s.Hire(func() (*exec.Cmd, error) { return redistest.Self(parrot) }, time.Minute, func(life int) any { return life })
	require.NoError(t, err)
	return w
}

func TestAWorkerLivesAgainAfterItWasKilled(t *testing.T) {
	s := open(t, stage.Standalone)
	w := hire(t, s)
	var life int
	require.NoError(t, w.Ask("life", &life))
	require.Equal(t, 0, life)

	w.Kill()
	w.Kill()
	require.ErrorIs(t, w.Ask("life", &life), redistest.ErrKilled)
	require.ErrorIs(t, w.Pause(), redistest.ErrKilled)
	require.NoError(t, w.Revive())
	require.NoError(t, w.Revive())
	require.NoError(t, w.Ask("life", &life))
	require.Equal(t, 1, life)
	require.Equal(t, 2, w.Lives())
}

func TestACommandGoesToThePrimariesOrToAllNodes(t *testing.T) {
	s := open(t, stage.Cluster)
	require.Len(t, s.Primaries(), 3)
	require.NoError(t, s.OnPrimaries("SET", "key", "1", "PX", "100000"), "two refuse it")
	keys, err := s.Keys()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.InDelta(t, 100_000, keys["key"], 99_000)
	require.Error(t, s.OnPrimaries("NO-SUCH-COMMAND"))
	require.NoError(t, s.Everywhere("CONFIG", "SET", "maxclients", "9000"))
	for node := range 6 {
		setting, err := s.Do(node, "CONFIG", "GET", "maxclients").AsStrMap()
		require.NoError(t, err)
		require.Equal(t, "9000", setting["maxclients"])
	}
	require.NoError(t, s.Ready())
}

func TestAFailoverThereAndBackIsSeen(t *testing.T) {
	s := open(t, stage.Cluster)
	before := s.Reigns()
	require.Len(t, before, 3)
	for range 2 {
		require.NoError(t, s.Attempt(func() { s.Server.Failover("key") }))
	}
	require.Len(t, s.Primaries(), 3)
	require.NotEqual(t, before, s.Reigns())
}

func TestChannelsAreThoseWithSubscribers(t *testing.T) {
	s := open(t, stage.Standalone)
	channels, err := s.Channels()
	require.NoError(t, err)
	require.Empty(t, channels)
	conn, err := net.Dial("tcp", s.Address().Init[0])
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("SUBSCRIBE somewhere\r\n"))
	require.NoError(t, err)
	_, err = bufio.NewReader(conn).ReadString('e')
	require.NoError(t, err)
	channels, err = s.Channels()
	require.NoError(t, err)
	require.Equal(t, []string{"somewhere"}, channels)
	listeners := s.Listeners()
	require.Len(t, listeners, 1)
	require.Contains(t, listeners[0], " sub=1 ")
}

func TestATopologyThatThereIsNotIsRefused(t *testing.T) {
	_, err := stage.ParseTopology("ring")
	require.ErrorContains(t, err, "standalone")
	_, err = stage.Open("ring", t.TempDir())
	require.ErrorContains(t, err, "ring")
	sentinel, err := stage.ParseTopology("sentinel")
	require.NoError(t, err)
	require.Equal(t, stage.Sentinel, sentinel)
}
