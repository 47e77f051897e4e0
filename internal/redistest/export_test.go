package redistest

import "testing"

// For returns s in the hands of another test.
func (s *Server) For(t testing.TB) *Server { return s.lend(t) }

// MayChoose reports whether another test may choose the ports of the server.
func (s *Server) MayChoose() bool {
	for _, p := range s.processes() {
		if !free(p.port + guardOffset) {
			return false
		}
	}
	return true
}
