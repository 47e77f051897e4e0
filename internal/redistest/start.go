package redistest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// portsOfALayout is how many ports a layout may use: three nodes and three
// sentinels, or six nodes.
const portsOfALayout = 6

// A layout lists the processes of a server of its kind, with the contents of their files. It
// starts nothing.
type layout func(i installation, dir string, ports []int) *Server

func layStandalone(i installation, dir string, ports []int) *Server {
	return &Server{Kind: KindStandalone, nodes: []*process{i.node(dir, ports[0], "")}}
}

// own starts a server for t alone.
func own(t testing.TB, lay layout, args []string) *Server {
	t.Helper()
	s, err := start(lay, installed(t, args), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s.lend(t)
}

// lend returns the server for t. The gate reads the line that it logs, as proof that a real
// server took part.
func (s *Server) lend(t testing.TB) *Server {
	t.Helper()
	lent := *s
	lent.t = t
	t.Logf("redistest: %s at %s (%s)", s.Kind, s.Addr(), s.program.release)
	return &lent
}

// start starts a server, or nothing and returns an error. It tries other ports when another
// program took the chosen ones.
func start(lay layout, i installation, dir string) (*Server, error) {
	for attempt := 1; ; attempt++ {
		ports, guards, err := reservePorts(portsOfALayout)
		if err != nil {
			return nil, err
		}
		s := lay(i, dir, ports)
		s.program, s.guards = i, guards
		if err = s.run(); err == nil {
			return s, nil
		}
		s.close()
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			return nil, err
		}
	}
}

func (s *Server) processes() []*process { return slices.Concat(s.nodes, s.sentinels) }

// run starts those processes that do not run, side by side, and returns when the
// server as a whole is ready.
func (s *Server) run() error {
	stopped := slices.DeleteFunc(s.processes(), (*process).running)
	for _, p := range stopped {
		if err := p.launch(); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	for _, p := range stopped {
		if err := p.await(); err != nil {
			return err
		}
	}
	switch s.Kind {
	case KindSentinel:
		return eventually(s.sentinelReady)
	case KindCluster:
		return eventually(s.clusterReady)
	default:
		return nil
	}
}

// close ends the server for good: others may have its ports.
func (s *Server) close() {
	s.end()
	s.guards.release()
}

// end ends all processes of the server, in whatever state they are.
func (s *Server) end() {
	for _, p := range s.processes() {
		p.kill()
	}
}
