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
const (
	firstPort = 10000
	lastPort  = 21999
	busOffset = 10000
)

// errPortTaken means that another program, such as another test binary, took a port after it
// was chosen. Choosing again helps.
var errPortTaken = errors.New("redistest: port taken")

// freePorts returns n different ports that are free, like their bus ports. Nothing reserves
// them.
func freePorts(n int) ([]int, error) {
	chosen := make(map[int]bool, n)
	ports := make([]int, 0, n)
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if chosen[port] || !free(port) || !free(port+busOffset) {
			continue
		}
		chosen[port] = true
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("redistest: found %d of %d free ports between %d and %d", len(ports), n, firstPort, lastPort)
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
