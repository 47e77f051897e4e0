package redistest

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/inmemory"
)

// Embedded returns a miniredis whose keys expire by the clock, to be reached only over
// pipes, through the DialCtxFn of [Server.Options]. It needs no redis-server and may be
// used in a testing/synctest bubble, if it was made there. The documentation of package
// inmemory lists the missing features.
func Embedded(t testing.TB) *Server {
	t.Helper()
	WithoutServer(t)
	e := inmemory.New()
	t.Cleanup(e.Close)
	return &Server{Kind: KindEmbedded, t: t, embedded: e}
}

// Refuse lets an Embedded answer chosen commands with an error, as a server does
// that is loading, read-only, out of memory, or told so by an ACL. From now on
// it asks for every command, by its name in lower case, also for those of
// scripts; refuse returns the error ("READONLY You can't write ...") or "" to let
// it pass. It is called concurrently. Refuse(nil) ends it.
func (s *Server) Refuse(refuse func(command string, args ...string) string) {
	s.t.Helper()
	s.breakable("Refuse", KindEmbedded)
	s.embedded.Refuse(refuse)
}

// bubbleLimit is more than any test needs. A bubble with a watchdog's tick a second reaches
// it within seconds.
const bubbleLimit = 24 * time.Hour

// Bubble runs a test with an Embedded in a testing/synctest bubble, in
// virtual time. A bubble in which some ticker goes on is never found deadlocked:
// time just flies. So when 24 virtual hours have passed, Bubble panics and
// shows all goroutines. Everything the test starts must have ended when it
// returns.
func Bubble(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Helper()
	WithoutServer(t) // before the bubble, which a test cannot leave by skipping
	synctest.Test(t, func(t *testing.T) {
		guard := time.AfterFunc(bubbleLimit, func() {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			panic(fmt.Sprintf("redistest: %s hangs: %v of virtual time have passed\n\n%s", t.Name(), bubbleLimit, stacks))
		})
		defer guard.Stop()
		run(t, Embedded(t))
	})
}
