package relay_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble has a client and an embedded server with a network between them.
func bubble(t *testing.T, run func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client)) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		n := relay.New(server.Dial)
		defer n.Close()
		client, err := rueidis.NewClient(option(n))
		require.NoError(t, err)
		defer client.Close()
		run(t, server, n, client)
	})
}

func option(n *relay.Network) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{"127.0.0.1:6379"},
		ForceSingleClient: true,
		DisableCache:      true,
		AlwaysPipelining:  true,
		PipelineMultiplex: -1,
		ConnWriteTimeout:  time.Hour,
		DialCtxFn:         n.Dial,
	}
}

func incr(client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return client.Do(ctx, client.B().Incr().Key("n").Build()).Error()
}

func count(t *testing.T, server *miniredis.Miniredis) string {
	t.Helper()
	if !server.Exists("n") {
		return "0"
	}
	n, err := server.Get("n")
	require.NoError(t, err)
	return n
}

func TestWithoutARuleEverythingPasses(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client) {
		for range 3 {
			require.NoError(t, incr(client))
		}
		assert.Equal(t, "3", count(t, server))
		require.Len(t, n.Sent("incr"), 3)
		assert.Equal(t, []string{"INCR", "n"}, n.Sent("INCR")[0].Args)
		assert.Greater(t, len(n.Sent("")), 3, "the client's greeting too")
	})
}

func TestACommandThatIsCutOffIsNotExecuted(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client) {
		n.Rule(relay.Nth(2, relay.Cut, relay.Request, "INCR"))
		require.NoError(t, incr(client))
		require.Error(t, incr(client))
		assert.Equal(t, "1", count(t, server))
		require.NoError(t, incr(client), "over a new connection")
		assert.Equal(t, "2", count(t, server))
	})
}

func TestACommandWhoseReplyIsCutOffIsExecuted(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client) {
		n.Rule(relay.Nth(2, relay.Cut, relay.Reply, "INCR"))
		require.NoError(t, incr(client))
		require.Error(t, incr(client))
		assert.Equal(t, "2", count(t, server))
	})
}

func TestWhatIsHeldKeepsBackWhatIsBehindItUntilItIsDelivered(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client) {
		n.Rule(relay.Nth(1, relay.Hold, relay.Request, "INCR"))
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- incr(client) }()
			synctest.Wait()
		}
		assert.Empty(t, results)
		assert.Equal(t, "0", count(t, server))
		n.Deliver()
		require.NoError(t, <-results)
		require.NoError(t, <-results)
		assert.Equal(t, "2", count(t, server))
	})
}

func TestACommandArrivesAlthoughItsClientHasClosedItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, _ rueidis.Client) {
		client, err := rueidis.NewClient(option(n))
		require.NoError(t, err)
		n.Rule(relay.Silence)
		result := make(chan error, 1)
		go func() { result <- incr(client) }()
		synctest.Wait()
		client.Close()
		require.Error(t, <-result)
		n.Heal()
		synctest.Wait()
		assert.Equal(t, "1", count(t, server))
	})
}

func TestACutNetworkRefusesConnectionsUntilItIsHealed(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client) {
		n.Rule(relay.Silence)
		result := make(chan error, 1)
		go func() { result <- incr(client) }()
		synctest.Wait()
		n.Cut()
		require.Error(t, <-result)
		_, err := n.Dial(context.Background(), "", nil, nil)
		require.Error(t, err)
		n.Heal()
		require.NoError(t, incr(client))
		assert.Equal(t, "1", count(t, server), "what was held is gone")
	})
}

func TestAMessageCanBeDroppedAlone(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *relay.Network, client rueidis.Client) {
		n.Rule(func(f relay.Frame) relay.Fate {
			if f.Stage == relay.Push && f.Is("message") && f.Args[2] == "one" {
				return relay.Drop
			}
			return relay.Pass
		})
		ctx, cancel := context.WithCancel(context.Background())
		var got []string
		done := make(chan error, 1)
		go func() {
			done <- client.Receive(ctx, client.B().Subscribe().Channel("c").Build(), func(m rueidis.PubSubMessage) { got = append(got, m.Message) })
		}()
		synctest.Wait()
		server.Publish("c", "one")
		server.Publish("c", "two")
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.Equal(t, []string{"two"}, got)
	})
}

func TestADialThatFailsIsTold(t *testing.T) {
	n := relay.New(func() (net.Conn, error) { return nil, errors.New("nobody there") })
	defer n.Close()
	_, err := n.Dial(context.Background(), "", nil, nil)
	require.ErrorContains(t, err, "nobody there")
}

// The same over TCP, where what is read may begin and end anywhere.
func TestItWorksOverTCP(t *testing.T) {
	server := miniredis.RunT(t)
	n := relay.New(func() (net.Conn, error) { return net.Dial("tcp", server.Addr()) })
	defer n.Close()
	client, err := rueidis.NewClient(option(n))
	require.NoError(t, err)
	defer client.Close()
	big := make([]byte, 1<<20)
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key("big").Value(string(big)).Build()).Error())
	value, err := client.Do(t.Context(), client.B().Get().Key("big").Build()).AsBytes()
	require.NoError(t, err)
	assert.Equal(t, big, value)
	list := client.B().Lrange().Key("none").Start(0).Stop(-1).Build()
	require.NoError(t, client.Do(t.Context(), list).Error())
	require.NoError(t, incr(client))
}
