package redistest

import (
	"testing"
	"testing/synctest"

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

// Bubble runs a test with an Embedded in a testing/synctest bubble, in
// virtual time, with a [Guard]. Everything the test starts must have ended when it
// returns.
func Bubble(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Helper()
	WithoutServer(t) // before the bubble, which a test cannot leave by skipping
	Guard(t)
	synctest.Test(t, func(t *testing.T) {
		run(t, Embedded(t))
	})
}
