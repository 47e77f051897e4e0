package redistest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// shared has the servers that the tests of this binary share.
var shared struct {
	sync.Mutex
	dir     string // of their files; "" without Main
	servers map[Kind]*Server
}

// Main runs the tests of a package, as its TestMain does:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// While it runs, [Each] shares its Sentinel and its Cluster among all tests. After the last one it
// removes them, and then fails if a goroutine is left, as goleak.VerifyTestMain does, which gets
// the options. It may take some seconds for that, since goroutines of a rueidis Cluster client
// outlive its Close. A test that calls goleak.VerifyNone by itself needs goleak.IgnoreCurrent: a
// goroutine attends each server process. Main does not return.
func Main(m *testing.M, options ...goleak.Option) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		panic(err)
	}
	shared.dir, shared.servers = dir, make(map[Kind]*Server)
	code := m.Run()
	for _, s := range shared.servers {
		s.close()
	}
	_ = os.RemoveAll(dir) // leftovers stay in the system's temporary directory
	// A rueidis Cluster client keeps connections that a change of the topology made superfluous for
	// five seconds. The limit ends a hang only.
	for deadline := time.Now().Add(time.Minute); code == 0; {
		if err = goleak.Find(options...); err == nil { // waits a little itself
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// borrow returns the shared server of its kind, empty, for t, and starts it at the first need. The
// test fails if a primary is another one in the end, since writes may have been lost. Without Main
// nothing would stop a shared server: then t gets one of its own.
func borrow(t testing.TB, kind Kind, lay layout) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.dir == "" {
		return own(t, lay)
	}
	s := shared.servers[kind]
	if s == nil {
		var err error
		if s, err = start(lay, installed(t, nil), shared.dir); err != nil {
			t.Fatal(err)
		}
		s.shared = true
		shared.servers[kind] = s
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.unchanged(); err != nil {
			t.Error(err)
		}
	})
	return s.lend(t)
}
