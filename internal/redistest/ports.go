package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports come from below 32768, where the kernel's own choice for outgoing
// connections begins on Linux: a server that is stopped and started again must find its
// port free, and not lent to some client in the meantime. A Cluster node
// listens on a second port, busOffset above the first.
//
// A port is reserved until the test ends, also while its server is stopped: this process
// listens on a third port, guardOffset above the first. So no other test, of this binary or
// of another, chooses it.
const (
	firstPort   = 10000
	lastPort    = 15999
	busOffset   = 10000
	guardOffset = 16000
)

// errPortTaken means that another program took a port after it was chosen. Choosing again
// helps.
var errPortTaken = errors.New("redistest: port taken")

// guards are the listeners that reserve ports.
type guards []net.Listener

// reservePorts returns n different ports that are free, like their bus ports, and reserves
// them until the guards are released.
func reservePorts(n int) (ports []int, g guards, err error) {
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		guard, err := net.Listen("tcp", loopback(port+guardOffset))
		if err != nil {
			continue // another test has it
		}
		if !free(port) || !free(port+busOffset) {
			_ = guard.Close()
			continue
		}
		g = append(g, guard)
		if ports = append(ports, port); len(ports) == n {
			return ports, g, nil
		}
	}
	g.release()
	return nil, nil, fmt.Errorf("redistest: found %d of %d free ports between %d and %d", len(ports), n, firstPort, lastPort)
}

func (g guards) release() {
	for _, guard := range g {
		_ = guard.Close()
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string {
	return fmt.Sprintf("127.0.0.1:%d", port)
}
