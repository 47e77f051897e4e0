package redistest

import "testing"

// Each runs one test over all four kinds, as sub-tests that bear their names. The
// server is empty. Under [Main] the Sentinel and the Cluster are shared with other
// tests: they refuse faults, and since each use empties them, tests that run in
// parallel must not use Each.
func Each(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Run(string(KindEmbedded), func(t *testing.T) { run(t, Embedded(t)) })
	t.Run(string(KindStandalone), func(t *testing.T) { run(t, Standalone(t)) })
	t.Run(string(KindSentinel), func(t *testing.T) { run(t, common.lend(t, KindSentinel, laySentinel)) })
	t.Run(string(KindCluster), func(t *testing.T) { run(t, common.lend(t, KindCluster, layCluster)) })
}
