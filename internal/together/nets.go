package together

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/network"
)

type netOf = network.Network

// nets are the networks of a client to the nodes of a server, one for each address.
type nets struct {
	dial func(address string) (net.Conn, error)

	mu    sync.Mutex
	trip  time.Duration
	nodes map[string]*network.Network
}

func newNets(dial func(string) (net.Conn, error), trip time.Duration) *nets {
	return &nets{dial: dial, trip: trip, nodes: make(map[string]*network.Network)}
}

// dialCtx is DialCtxFn of a rueidis client.
func (n *nets) dialCtx(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	n.mu.Lock()
	node := n.nodes[address]
	if node == nil {
		node = network.New(func() (net.Conn, error) { return n.dial(address) })
		node.SetRoundTrip(n.trip)
		n.nodes[address] = node
	}
	n.mu.Unlock()
	return node.Dial(ctx, address, d, c)
}

// each does something to the networks to all nodes.
func (n *nets) each(do func(*network.Network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range n.nodes {
		do(node)
	}
}

// heal ends all faults.
func (n *nets) heal() {
	n.each(func(node *network.Network) {
		node.SetRoundTrip(n.trip)
		node.SetSlice(0)
		node.Heal()
		node.Deliver()
	})
}

// dialer returns a DialCtxFn without a network between.
func dialer(dial func(string) (net.Conn, error)) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(_ context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(address)
	}
}
