package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// The two ends of the only link between the namespaces.
const serverIP, clientIP = "10.213.0.1", "10.213.0.2"

var linksMade atomic.Int64

// A Link is the network between a server from [Apart] and its clients. Its
// packets are the kernel's own: connections are opened, time out and are taken up
// again as between two machines.
type Link struct {
	t                testing.TB
	serverNS, client namespace
	server           *Server
}

// Apart starts one redis-server in a network namespace of its own, and links it
// with a second one, from which clients connect by [Link.Dial]. The Server's
// Options and Client are on its own side of the link, which is never cut. It
// needs root and the command ip, and skips the test without them.
func Apart(t testing.TB) (*Server, *Link) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Geteuid() != 0 {
		t.Skip("network namespaces need root, and the command ip (Debian's iproute2)")
	}
	number := linksMade.Add(1)
	name := func(end string) namespace { return namespace(fmt.Sprintf("rlock-%d-%d-%s", os.Getpid(), number, end)) }
	l := &Link{t: t, serverNS: name("server"), client: name("client")}
	if err := ip("netns", "add", string(l.serverNS)); err != nil {
		t.Skipf("the kernel gives no network namespace: %v", err)
	}
	t.Cleanup(func() { l.must("netns", "del", string(l.serverNS)) })
	l.must("netns", "add", string(l.client))
	t.Cleanup(func() { l.must("netns", "del", string(l.client)) })
	l.must("link", "add", "name", "veth", "netns", string(l.serverNS), "type", "veth", "peer", "name", "veth", "netns", string(l.client))
	l.must("-n", string(l.serverNS), "addr", "add", serverIP+"/30", "dev", "veth")
	l.must("-n", string(l.client), "addr", "add", clientIP+"/30", "dev", "veth")
	l.must("-n", string(l.serverNS), "link", "set", "lo", "up")
	l.must("-n", string(l.client), "link", "set", "veth", "up")
	l.Heal()

	lay := func(i installation, dir string, ports []int) *Server {
		p := i.node(dir, ports[0], "protected-mode no\n")
		p.args = append(p.args, "--bind", "127.0.0.1", serverIP)
		p.within = []string{"ip", "netns", "exec", string(l.serverNS)}
		p.dial = l.serverNS.dial
		return &Server{Kind: KindStandalone, nodes: []*instance{p}}
	}
	l.server = own(t, lay)
	return l.server, l
}

// Dial connects with the server over the link; it is made for DialCtxFn of
// rueidis, whatever the address.
func (l *Link) Dial(ctx context.Context, _ string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	return l.client.dial(ctx, net.JoinHostPort(serverIP, strconv.Itoa(l.server.nodes[0].port)), dialer, config)
}

// Cut takes the server's end down: packets of both sides are lost from now on, and neither
// side is notified.
func (l *Link) Cut() { l.must("-n", string(l.serverNS), "link", "set", "veth", "down") }

// Heal ends Cut.
func (l *Link) Heal() { l.must("-n", string(l.serverNS), "link", "set", "veth", "up") }

func (l *Link) must(args ...string) {
	l.t.Helper()
	if err := ip(args...); err != nil {
		l.t.Fatal(err)
	}
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("redistest: ip %v: %w: %s", args, err, out)
	}
	return nil
}

// A namespace is the name of a network namespace, as ip netns has it.
type namespace string

// dial opens a connection in the namespace. A socket stays in the namespace of the thread
// that opened it.
func (n namespace) dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var file *os.File
		if file, err = os.Open("/run/netns/" + string(n)); err != nil {
			return
		}
		defer file.Close()
		if err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err == nil {
			conn, err = dialer.DialContext(ctx, "tcp", addr)
		}
	}()
	<-done
	return conn, err
}
