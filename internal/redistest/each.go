package redistest

import "testing"

// Each runs one test over all four kinds, as sub-tests that bear their names. The
// server is empty. Under [Main] the Sentinel and the Cluster are shared with other
// tests: they refuse faults, and since each use empties them, tests that run in
// parallel must not use Each.
func Each(t *testing.T, run func(t *testing.T, s *Server)) {
	Over(t, []Kind{KindEmbedded, KindStandalone, KindSentinel, KindCluster}, run)
}

// Over is Each for some of the kinds.
func Over(t *testing.T, kinds []Kind, run func(t *testing.T, s *Server)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { run(t, borrow(t, kind)) })
	}
}

// borrow returns an empty server of the kind, which may be shared.
func borrow(t *testing.T, kind Kind) *Server {
	switch kind {
	case KindEmbedded:
		return Embedded(t)
	case KindSentinel:
		return common.lend(t, KindSentinel, laySentinel)
	case KindCluster:
		return common.lend(t, KindCluster, layCluster)
	default:
		return Standalone(t)
	}
}
