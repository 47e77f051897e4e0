package network_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble has a client and an embedded server with a network between them.
func bubble(t *testing.T, run func(t *testing.T, server *miniredis.Miniredis, n *network.Network, client rueidis.Client)) {
	redistest.Virtual(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		n := network.New(server.Dial)
		defer n.Close()
		n.Record()
		client, err := rueidis.NewClient(option(n))
		require.NoError(t, err)
		defer client.Close()
		run(t, server, n, client)
	})
}

func option(n *network.Network) rueidis.ClientOption {
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

// pair returns both ends of a connection over a network. The test closes them.
func pair(t testing.TB) (n *network.Network, client, server net.Conn) {
	server, theirs := net.Pipe()
	n = network.New(func() (net.Conn, error) { return theirs, nil })
	client, err := n.Dial(t.Context(), "", nil, nil)
	require.NoError(t, err)
	return n, client, server
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

// The address leads to another server, as far as a client can tell, and the old one is its replica.
func TestOpenConnectionsStayWhereTheyAreWhenTheAddressMoves(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *network.Network, client rueidis.Client) {
		script := func(c rueidis.Client) error {
			return c.Do(t.Context(), c.B().Eval().Script("return 1").Numkeys(0).Build()).Error()
		}
		listener, err := rueidis.NewClient(option(n))
		require.NoError(t, err)
		defer listener.Close()
		heard := make(chan string, 10)
		go func() {
			_ = listener.Receive(t.Context(), client.B().Subscribe().Channel("c").Build(), func(m rueidis.PubSubMessage) { heard <- m.Message })
		}()
		synctest.Wait()
		server.Publish("c", "before")
		synctest.Wait()
		n.Move()
		server.Publish("c", "after")
		synctest.Wait()
		assert.Len(t, heard, 1)
		assert.ErrorContains(t, script(client), "READONLY")
		require.NoError(t, incr(client), "other commands pass")

		other, err := rueidis.NewClient(option(n))
		require.NoError(t, err)
		defer other.Close()
		assert.NoError(t, script(other))
		info, err := other.Do(t.Context(), other.B().Info().Build()).ToString()
		require.NoError(t, err)
		assert.Contains(t, info, "run_id:0000")
		n.Heal()
		assert.ErrorContains(t, script(client), "READONLY")
	})
}

func TestACommandIsExecutedIfItsReplyIsCutOffAndNotIfItIsItself(t *testing.T) {
	for stage, counts := range map[network.Stage][2]string{network.Request: {"1", "2"}, network.Reply: {"2", "3"}} {
		bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *network.Network, client rueidis.Client) {
			n.Rule(network.Nth(2, network.Cut, stage, "INCR"))
			require.NoError(t, incr(client))
			require.Error(t, incr(client))
			assert.Equal(t, counts[0], count(t, server), stage)
			require.NoError(t, incr(client), "over a new connection")
			assert.Equal(t, counts[1], count(t, server), stage)
		})
	}
}

func TestACommandArrivesAlthoughItsClientHasClosedItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *network.Network, _ rueidis.Client) {
		client, err := rueidis.NewClient(option(n))
		require.NoError(t, err)
		n.Rule(network.Silence)
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

// The same over TCP, where reads may begin and end anywhere.
func TestItWorksOverTCP(t *testing.T) {
	server := miniredis.RunT(t)
	n, err := network.Listen(server.Addr())
	require.NoError(t, err)
	defer n.Close()
	n.SetRoundTrip(time.Millisecond)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{n.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	big := make([]byte, 1<<20)
	for name, set := range map[string]func(){
		"no rule":       func() {},
		"a rule":        func() { n.Rule(func(network.Frame) network.Fate { return network.Pass }) },
		"recorded":      n.Record,
		"tiny pieces":   func() { n.SetSlice(1 << 10) },
		"the old again": func() { n.Heal(); n.SetSlice(0) },
	} {
		set()
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key("big").Value(string(big)).Build()).Error(), name)
		value, err := client.Do(t.Context(), client.B().Get().Key("big").Build()).AsBytes()
		require.NoError(t, err, name)
		assert.Equal(t, big, value, name)
		list := client.B().Lrange().Key("none").Start(0).Stop(-1).Build()
		require.NoError(t, client.Do(t.Context(), list).Error(), name)
		require.NoError(t, incr(client), name)
	}
	n.Rule(network.Nth(2, network.Replace(":42\r\n"), network.Reply, "INCR"))
	for _, want := range []int64{6, 42, 8} {
		got, err := client.Do(t.Context(), client.B().Incr().Key("n").Build()).AsInt64()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// A new rule knows the command of a reply that is already under way.
func TestARuleKnowsTheCommandsSentBeforeIt(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis, n *network.Network, client rueidis.Client) {
		n.SetRoundTrip(time.Second)
		result := make(chan error, 1)
		go func() { result <- incr(client) }()
		time.Sleep(600 * time.Millisecond)
		assert.Equal(t, "1", count(t, server), "the command is executed half a round trip later")
		n.Rule(network.All(network.Cut, network.Reply, "INCR"))
		require.Error(t, <-result)
	})
}

func TestTheDelayDoesNotLimitTheBytesUnderWay(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		n, client, server := pair(t)
		defer n.Close()
		const roundTrip, messages, apart = time.Second, 500, 10 * time.Millisecond
		n.SetRoundTrip(roundTrip)
		go func() { _, _ = io.Copy(server, server) }()
		began := time.Now()
		go func() {
			for range messages {
				_, _ = client.Write([]byte("x"))
				time.Sleep(apart)
			}
		}()
		_, err := io.ReadFull(client, make([]byte, messages))
		require.NoError(t, err)
		assert.Equal(t, (messages-1)*apart+roundTrip, time.Since(began))
		_ = server.Close()
	})
}

func TestAShorterDelayDoesNotReorderAndAnEndComesLast(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		n, client, server := pair(t)
		defer n.Close()
		n.SetRoundTrip(time.Second)
		_, _ = server.Write([]byte("last "))
		synctest.Wait()
		n.SetRoundTrip(0)
		_, _ = server.Write([]byte("words"))
		require.NoError(t, server.Close())
		got, err := io.ReadAll(client)
		require.NoError(t, err)
		assert.Equal(t, "last words", string(got))
	})
}

// Any bytes, in any pieces, arrive unchanged, RESP or not, with and without a rule.
func FuzzBytesArriveUnchanged(f *testing.F) {
	f.Add([]byte("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"), uint8(7), true)
	f.Add([]byte(">1\r\n|1\r\n+a\r\n:1\r\n%1\r\n_\r\n*-1\r\n$-1\r\n"), uint8(1), true)
	f.Add([]byte("$2147483647\r\n*999999999\r\n"), uint8(0), true)
	f.Add([]byte("*1\r\n+whole\r\n\x16no RESP"), uint8(3), false)
	f.Add([]byte("*\n$\r\n+"), uint8(1), true)
	f.Fuzz(func(t *testing.T, sent []byte, slice uint8, rule bool) {
		n, client, server := pair(t)
		defer n.Close()
		n.SetSlice(int(slice))
		if rule {
			n.Rule(func(network.Frame) network.Fate { return network.Pass })
		}
		go func() {
			for piece := range slices.Chunk(sent, int(slice)+1) {
				_, _ = client.Write(piece)
			}
			_ = client.Close()
		}()
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(sent, got))
	})
}
