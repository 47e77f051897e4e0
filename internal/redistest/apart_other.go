//go:build !linux

package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// A Link is the network between a server from [Apart] and its clients.
type Link struct{}

// Apart skips the test: only Linux has network namespaces.
func Apart(t testing.TB) (*Server, *Link) {
	t.Skip("network namespaces need Linux")
	return nil, nil
}

// Dial fails.
func (*Link) Dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// Cut does nothing.
func (*Link) Cut() {}

// Heal does nothing.
func (*Link) Heal() {}
