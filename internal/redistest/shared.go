package redistest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// rueidisLinger is longer than a rueidis Cluster client keeps connections that a change of
// the topology made superfluous (5 s). It ends a hang only.
const rueidisLinger = time.Minute

// Main runs the tests of a package, as its TestMain does:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// While it runs, [Each] shares its Sentinel and its Cluster among all tests. After
// the last one it removes them, and then fails if a goroutine is left, as
// goleak.VerifyTestMain does, which gets the options. It may take some seconds for that, since goroutines
// of a rueidis Cluster client outlive its Close. A test that calls
// goleak.VerifyNone by itself needs goleak.IgnoreCurrent: a goroutine attends each
// server process. Main does not return.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(sharing{m, options}, options...)
}

// sharing is a testing.M that opens the pool while its tests run.
type sharing struct {
	m       *testing.M
	options []goleak.Option
}

func (s sharing) Run() int {
	if err := common.enable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := s.m.Run()
	common.disable()
	for deadline := time.Now().Add(rueidisLinger); code == 0 && time.Now().Before(deadline); {
		if goleak.Find(s.options...) == nil { // waits a little itself
			break
		}
	}
	return code
}

// A pool holds the servers that the tests of this binary share.
type pool struct {
	mu      sync.Mutex // protects following
	dir     string     // of all shared servers; "" while there is no Main
	servers map[Kind]*Server
}

var common pool

func (p *pool) enable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	p.dir, p.servers = dir, make(map[Kind]*Server)
	return nil
}

func (p *pool) disable() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		s.close()
	}
	_ = os.RemoveAll(p.dir) // leftovers stay in the system's temporary directory
	p.dir, p.servers = "", nil
}

// lend returns the shared server of its kind, empty, for t, and starts it at the first need.
// Without Main nothing would stop a shared server: then t gets one of its own.
func (p *pool) lend(t testing.TB, kind Kind, lay layout) *Server {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		return own(t, lay, nil)
	}
	s := p.servers[kind]
	if s == nil {
		var err error
		if s, err = start(lay, installed(t, nil), p.dir); err != nil {
			t.Fatal(err)
		}
		s.shared = true
		p.servers[kind] = s
		// No test may break it, and a machine that is busy for two seconds must not make it
		// fail over.
		if err := s.takeForDead(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	return s.lend(t)
}
