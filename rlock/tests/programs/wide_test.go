package programs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/redistest"
)

// The load of a service: some thousand names in one client, each with a goroutine, and more
// commands due than there are places for, so that all else comes between the end of a section and
// the command that says so. In real time, and on real servers, torture has it.
func TestAClientHasThousandsOfNames(t *testing.T) {
	redistest.WithoutServer(t)
	redistest.Slow(t)
	const names = 1500
	var p *programs.Process
	redistest.Virtual(t, func(t *testing.T) {
		s := inmemory.New()
		defer s.Close()
		var err error
		server := embedded(s)
		server.Refuse = nil // the faults are those of its networks
		ground := programs.Ground{Servers: []programs.Server{server}}
		p, err = programs.Begin(t.Context(), programs.Endless(1, 1, names, 3*time.Second, false), ground, 1)
		require.NoError(t, err)
		most := 0
		for range 3 {
			p.Storm()
			time.Sleep(5 * time.Second)
			settled := p.Settle(2 * time.Minute)
			require.Empty(t, settled.Hung)
			require.Empty(t, settled.Problems)
			most = max(most, settled.Most)
		}
		require.Empty(t, p.End())
		require.Greater(t, most, names/4, "levels at once")
	})
	require.Empty(t, p.Verdict())
}
