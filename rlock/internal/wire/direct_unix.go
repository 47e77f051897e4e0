//go:build unix

package wire

import (
	"net"
	"syscall"
)

// openCheck returns a function that reports whether an idle connection is still open: there is
// nothing to read, neither the end of the connection nor an unexpected message. It returns nil for
// a connection that is no socket.
func openCheck(conn net.Conn) func() bool {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn }) // a connection of TLS
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	var open bool
	var one [1]byte
	look := func(fd uintptr) {
		_, err := syscall.Read(int(fd), one[:]) // the socket does not block
		open = err == syscall.EAGAIN
	}
	return func() bool { return raw.Control(look) == nil && open }
}
