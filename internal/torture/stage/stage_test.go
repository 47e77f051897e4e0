package stage_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/launch"
	"github.com/go-rlock/rlock/internal/network"
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
	w, err := s.Hire(parrot, time.Minute, func(life int) any { return life })
	require.NoError(t, err)
	return w
}

// connect returns a client that connects as the workers do.
func connect(t *testing.T, s *stage.Stage) rueidis.Client {
	t.Helper()
	return connectTo(t, s.Address())
}

func connectTo(t *testing.T, a stage.Address) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: a.Init, Username: stage.User, Password: stage.Password, DisableCache: true, ForceSingleClient: true,
		DialCtxFn: a.Dial,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func ping(client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.Do(ctx, client.B().Set().Key("key").Value("1").Build()).Error()
}

// answers requires that the client can connect: one of its connections may have died.
func answers(t *testing.T, client rueidis.Client) {
	t.Helper()
	require.Eventually(t, func() bool { return ping(client) == nil }, time.Minute, time.Millisecond)
}

func TestWorkersReachANodeThroughItsNetworkAndTheStagePastIt(t *testing.T) {
	s := open(t, stage.Standalone)
	client := connect(t, s)
	require.NoError(t, ping(client))

	lift := s.Networks.Refuse(stage.Everyone)
	require.Error(t, ping(client))
	require.NoError(t, s.Do(0, "PING").Error())
	lift()
	lift()
	answers(t, client)
}

func TestRulesOfSeveralFaultsApplyTogether(t *testing.T) {
	s := open(t, stage.Standalone)
	cut := func(command string) func() network.Rule {
		return func() network.Rule { return network.All(network.Cut, network.Request, command) }
	}
	liftSet, liftGet := s.Networks.Impose(stage.Everyone, cut("SET")), s.Networks.Impose(stage.Everyone, cut("GET"))
	client := connect(t, s)
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // it retries for that long
		defer cancel()
		err := client.Do(ctx, client.B().Get().Key("key").Build()).Error()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	}
	require.Error(t, ping(client))
	require.Error(t, get())

	s.Networks.Refuse(stage.Everyone)() // must forget no rule
	require.Error(t, get())
	liftGet()
	liftGet()
	require.Eventually(t, func() bool { return get() == nil }, time.Minute, time.Millisecond)
	require.Error(t, ping(client))
	liftSet()
	answers(t, client)
}

func TestAFaultOfOneWorkerAffectsNoOther(t *testing.T) {
	s := open(t, stage.Standalone)
	hire(t, s)
	hire(t, s)
	first, second, visitor := connectTo(t, s.AddressOf(0)), connectTo(t, s.AddressOf(1)), connect(t, s)
	for _, disturb := range []func() (lift func()){
		func() func() { return s.Networks.Refuse(0) },
		func() func() {
			return s.Networks.Impose(0, func() network.Rule { return network.All(network.Cut, network.Request, "SET") })
		},
	} {
		lift := disturb()
		require.Error(t, ping(first))
		answers(t, second)
		answers(t, visitor)
		both := s.Networks.Refuse(stage.Everyone)
		require.Error(t, ping(second))
		lift()
		require.Error(t, ping(first), "the other fault still refuses connections")
		both()
		answers(t, first)
	}
}

func TestAWorkerLivesAgainAfterItWasKilled(t *testing.T) {
	s := open(t, stage.Standalone)
	w := hire(t, s)
	var life int
	require.NoError(t, w.Ask("life", &life))
	require.Equal(t, 0, life)

	w.Kill()
	w.Kill()
	require.ErrorIs(t, w.Ask("life", &life), launch.ErrKilled)
	require.ErrorIs(t, w.Pause(), launch.ErrKilled)
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
