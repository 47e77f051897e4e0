package redistest

import "testing"

// For returns s in the hands of another test.
func (s *Server) For(t testing.TB) *Server { return s.lend(t) }
