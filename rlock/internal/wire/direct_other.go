//go:build !unix

package wire

import "net"

// openCheck returns nil: only its use shows whether an idle connection is still open.
func openCheck(net.Conn) func() bool { return nil }
