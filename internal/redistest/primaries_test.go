package redistest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A machine that is busy while a server starts may delay the primary by seconds.
func TestAPrimaryThatStartsLateIsNotTakenForDead(t *testing.T) {
	Slow(t)
	for _, lay := range []layout{laySentinel, layCluster} {
		s, err := start(func(i installation, dir string, ports []int) *Server {
			s := lay(i, dir, ports)
			s.nodes[0].within = []string{"sh", "-c", `sleep 3 && exec "$0" "$@"`}
			return s
		}, installed(t, nil), t.TempDir())
		require.NoError(t, err)
		t.Cleanup(s.close)
		assert.NoError(t, s.unchanged(), s.Kind)
		s.lend(t).Failover("orders:42")
		assert.ErrorContains(t, s.unchanged(), "the primary", s.Kind)
	}
}
