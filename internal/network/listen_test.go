package network_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
)

// echo starts a server that returns the bytes that it gets, and returns its address.
func echo(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var goroutines sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); goroutines.Wait() })
	goroutines.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			goroutines.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	return listener.Addr().String()
}

func start(t testing.TB, target string, roundTrip time.Duration) *network.Network {
	n, err := network.Listen(target)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	n.SetRoundTrip(roundTrip)
	return n
}

func dial(t testing.TB, n *network.Network) net.Conn {
	conn, err := net.Dial("tcp", n.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAShorterDelayDoesNotReorder(t *testing.T) {
	n := start(t, echo(t), 40*time.Millisecond)
	conn := dial(t, n)
	_, err := conn.Write([]byte("a"))
	require.NoError(t, err)
	// The proxy must have stamped the first before the delay changes: it has when
	// the second, sent under the same delay, is back.
	var first [1]byte
	_, err = io.ReadFull(conn, first[:])
	require.NoError(t, err)
	_, err = conn.Write([]byte("b"))
	require.NoError(t, err)
	n.SetRoundTrip(0)
	_, err = conn.Write([]byte("c"))
	require.NoError(t, err)
	var rest [2]byte
	_, err = io.ReadFull(conn, rest[:])
	require.NoError(t, err)
	assert.Equal(t, "abc", string(first[:])+string(rest[:]))
}

func TestAnEndArrivesAfterTheBytesSentBefore(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	conn := dial(t, start(t, listener.Addr().String(), 20*time.Millisecond))
	server, err := listener.Accept()
	require.NoError(t, err)
	_, err = server.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "last words", string(got))
}

func TestCloseEndsHeldAndDelayedMessagesToo(t *testing.T) {
	n := start(t, echo(t), 0)
	for _, keep := range []func(){func() { n.Rule(network.Silence) }, func() { n.SetRoundTrip(time.Hour) }} {
		conn := dial(t, n)
		keep()
		_, err := conn.Write([]byte("never arrives"))
		require.NoError(t, err)
	}
	n.Close()
	n.Heal() // too late
	_, err := net.Dial("tcp", n.Addr())
	assert.Error(t, err)
}
